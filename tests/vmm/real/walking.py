"""Walking a monitor through a case."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.vmm.simulator.caller import Caller, Reply, shows
from tests.vmm.transcripts import Case, Step, cases_in

SCRIPT = {one.title: one.steps for one in cases_in(Path(__file__).with_name("script.txt"))}
OPTIONAL = ("initrd",)


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
    call = Caller(socket_path)
    for step in case.steps:
        reply = call(step.method, step.path, _filled(step.body, names))
        require_expected(step, reply, names)


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
