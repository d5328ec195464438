"""Walking a monitor through a script, and making the answers of two monitors comparable."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generated_vmm.testing.description import Json
from tests.vmm.real.agreement import fault_of, first_words
from tests.vmm.simulator.caller import Caller, Reply, shows
from tests.vmm.transcripts import Case, Step, cases_in

SCRIPT = {one.title: one.steps for one in cases_in(Path(__file__).with_name("script.txt"))}
OPTIONAL = ("initrd",)
VARIES = {"vmm_version", "firecracker_version", "id"}


def walk(socket_path: Path, steps: Iterable[Step], names: Mapping[str, str]) -> list[Reply]:
    """The replies of a monitor to the steps, with the names put in for their placeholders."""
    call = Caller(socket_path)
    return [call(step.method, step.path, _filled(step.body, names)) for step in steps]


def require_expected(step: Step, reply: Reply, names: Mapping[str, str]) -> None:
    """Fails with the step unless the reply is what its script says."""
    assert reply.status == step.status, (step, reply)
    says: Any = _filled(step.says, names)
    if isinstance(says, dict):
        assert shows(reply.json, says), (step, reply)
    elif says.endswith("…"):
        assert reply.fault.startswith(says[:-1]), (step, reply)
    elif says:
        assert reply.fault == says, (step, reply)


def require_case(socket_path: Path, case: Case, names: Mapping[str, str]) -> None:
    """Walks a monitor through a case."""
    for step in case.steps:
        [reply] = walk(socket_path, [step], names)
        require_expected(step, reply, names)


def comparable(reply: Reply, names: Mapping[str, str]) -> tuple[int, str]:
    """Status and body without what differs between hosts; of a fault the beginning."""
    if reply.status >= 400:
        return reply.status, first_words(fault_of(reply))
    text = json.dumps(_without_varying(reply.json), sort_keys=True)
    for name, value in names.items():
        text = text.replace(value, f"{{{name}}}")
    return reply.status, text


def _filled(body: object, names: Mapping[str, str]) -> object:
    absent = [f"{{{name}}}" for name in OPTIONAL if name not in names]
    if isinstance(body, str):
        for name, value in names.items():
            body = body.replace(f"{{{name}}}", value)
        return body
    if isinstance(body, dict):
        given = {key: value for key, value in body.items() if value not in absent}
        return {key: _filled(value, names) for key, value in given.items()}
    if isinstance(body, list):
        return [_filled(value, names) for value in body]
    return body


def _without_varying(value: Json) -> Json:
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in VARIES}
        return {key: _without_varying(one) for key, one in kept.items()}
    if isinstance(value, list):
        return [_without_varying(one) for one in value]
    return value
