"""Every member sends the request that the description says, and reads the answer into its model."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from codegen.document import Document, answer_of, body_of, operations_of, references_in
from generated_vmm import VmmClient, VmmError
from generated_vmm.testing.description import CURRENT
from tests.vmm.codegen.descriptions import described_reference
from tests.vmm.described import DOCUMENT, has
from tests.vmm.facade.conftest import Run, Serve
from tests.vmm.scripted import NO_CONTENT, ScriptedServer, Wire, answer
from tests.vmm.simulator.everything import Bodies

# With the client of an older monitor, also the members that this monitor lacks.
OPERATIONS = {
    operation["x-member"]: (f"{method.upper()} {path}", operation)
    for document in (described_reference(), DOCUMENT)
    for path, method, operation in operations_of(document)
    if "x-member" in operation
}
BODIES = Bodies(CURRENT, Path("/"))
INSTANCE = {"app_name": "Firecracker", "id": "a", "state": "Running", "vmm_version": "1.16.1"}


def member_of(vm: VmmClient, place: str) -> Callable[..., Any]:
    """The client's `drive("a").set` of the place `drive(id).set`."""
    found: object = vm
    for step in place.split("."):
        found = getattr(found, step.removesuffix("(id)"))
        found = cast(Callable[[str], object], found)("a") if step.endswith("(id)") else found
    return cast(Callable[..., Any], found)


def sample(described: Document | None) -> Any:
    """A value with nearly all members; None where nothing is described."""
    return None if described is None else BODIES.of(next(references_in(described)))


def answering(body: object) -> Callable[[Wire], None]:
    content = NO_CONTENT if body is None else answer(200, json.dumps(body).encode())
    return lambda wire: wire.answer_all(content)


@pytest.mark.filterwarnings("ignore:.* size=1 of a bandwidth:RuntimeWarning")  # 1 is the least
@pytest.mark.parametrize("place", OPERATIONS)
def test_a_member_sends_what_was_set_and_reads_all_that_was_answered(
    run: Run, serve: Serve, place: str
) -> None:
    template, operation = OPERATIONS[place]
    line = re.sub("{[^}]+}", "a", template)
    if not has(line):
        with pytest.raises(VmmError, match="needs monitor"):
            run(lambda vm: member_of(vm, place)())
        return
    sent, answered = sample(body_of(operation)), sample(answer_of(operation))
    server = serve(answering(answered))
    given = () if sent is None else (sent,)
    read = run(lambda vm: member_of(vm, place)(*given))
    if isinstance(read, BaseModel):
        read = read.model_dump(by_alias=True, exclude_unset=True)
    assert read == answered
    assert server.sent() == [(line, sent)]


SHORTHANDS: dict[str, tuple[Callable[[VmmClient], object], str, object]] = {
    "action": (
        lambda vm: vm.action("InstanceStart"),
        "PUT /actions",
        {"action_type": "InstanceStart"},
    ),
    "pause": (lambda vm: vm.pause(), "PATCH /vm", {"state": "Paused"}),
    "resume": (lambda vm: vm.resume(), "PATCH /vm", {"state": "Resumed"}),
    "a body that is optional": (
        lambda vm: vm.balloon.hinting.start(),
        "PATCH /balloon/hinting/start",
        None,
    ),
    "only fields of the path": (
        lambda vm: vm.drive("a").update(),
        "PATCH /drives/a",
        {"drive_id": "a"},
    ),
}


@pytest.mark.filterwarnings("ignore:.*it changes nothing:RuntimeWarning")
@pytest.mark.parametrize(("call", "line", "body"), SHORTHANDS.values(), ids=SHORTHANDS)
def test_a_shorthand_sends_what_it_stands_for(
    run: Run,
    accepting: ScriptedServer,
    call: Callable[[VmmClient], object],
    line: str,
    body: object,
) -> None:
    if not has(line):
        pytest.skip("the monitor of this client lacks the call")
    assert run(call) is None
    assert accepting.sent() == [(line, body)]


def test_metadata_is_a_plain_dict_with_its_nulls(run: Run, serve: Serve) -> None:
    serve(answering({"latest": {"a": None, "b": [1, "x"]}}))
    assert run(lambda vm: vm.mmds.get()) == {"latest": {"a": None, "b": [1, "x"]}}


def test_what_a_newer_monitor_answers_is_readable(run: Run, serve: Serve) -> None:
    serve(answering({**INSTANCE, "state": "Hibernating", "mood": "good"}))
    assert str(run(lambda vm: vm.get_instance_info()).state) == "Hibernating"
