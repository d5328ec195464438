"""From a request to its response: find the operation, read the body, check the phase, act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from generated_vmm.testing.bodies import Misread, json_bytes
from generated_vmm.testing.description import Description, Json, Operation
from generated_vmm.testing.http import Answer, Request
from generated_vmm.testing.machine import AFTER_START, BEFORE_START, Fault, Machine
from generated_vmm.testing.resources import act_as_described
from generated_vmm.testing.rule import ACTIONS, CHECKS, EARLY_CHECKS, OTHERWISE, Call
from generated_vmm.testing.rules import boot, devices, memory, services, snapshots

__all__ = ["answer", "boot", "carry_out", "devices", "memory", "services", "snapshots"]

HIDDEN: Final = frozenset({"/cpu-config", "/logger", "/metrics"})
"""Resources that the description shows in GET /vm/config but the monitor does not."""

DEPRECATED: Final[Mapping[str, Mapping[str, tuple[Json, ...]]]] = {
    "/machine-config": {"cpu_template": ()},
    "/mmds/config": {"version": ("V1",)},
    "/snapshot/load": {"mem_file_path": (), "enable_diff_snapshots": (True,)},
    "/vsock": {"vsock_id": ()},
}
"""Fields whose values, any or those named, set the response header `Deprecation`."""


def answer(machine: Machine, request: Request) -> Answer:
    """The monitor's response. Never raises for a bad request."""
    deprecated = False
    try:
        call = _read_call(machine, request)
        deprecated = _is_deprecated(call)
        value = carry_out(machine, call)
    except Misread as misread:
        text = f"An error occurred when deserializing the json body of a request: {misread}."
        given = Answer.refusing(text)
    except Fault as fault:
        given = Answer.refusing(str(fault), fault.status)
    else:
        shows = request.method == "GET"
        given = Answer(200, json_bytes(value)) if shows else Answer(204)
    return Answer(given.status, given.body, deprecated, machine.exit_code, given.fault)


def carry_out(machine: Machine, call: Call) -> Json:
    """Carries out the operation, and returns its value. Raises `Fault`."""
    description, operation = machine.options.description, call.operation
    _require_phase(machine, call)
    shown = {path for path, _ in description.shown.values()} - HIDDEN
    if not machine.started and operation.method != "GET" and call.resource in shown:
        machine.is_configured = True
    for check in CHECKS.get(operation.endpoint, ()):
        check(machine, call)
    acts = (*ACTIONS.get(operation.endpoint, ()), act_as_described)
    value = next(one for act in acts if (one := act(machine, call)) is not OTHERWISE)
    if operation.method != "GET":
        machine.settle()
    return description.shaped(operation.answer, value)


def _read_call(machine: Machine, request: Request) -> Call:
    description = machine.options.description
    operation, resource_id = find_operation(description, request)
    call = Call(operation, description.resource(operation), resource_id, {})
    if operation.body is None:
        return call
    body = machine.bodies.read(operation.body, b"{}" if request.body is None else request.body)
    if not description.fields(operation.body) or not isinstance(body, dict):
        call.content = body
        return call
    call.body = body
    in_body = body.get(operation.parameter, resource_id)
    if in_body != resource_id:
        shown = (f" [{resource_id}]", f" [{in_body}]")
        path, own = shown if call.resource == devices.NETWORK else ("", "")
        raise Fault(f"The id from the path{path} does not match the id from the body{own}!")
    for check in EARLY_CHECKS.get(operation.endpoint, ()):
        check(machine, call)
    return call


def _is_deprecated(call: Call) -> bool:
    said = {name: call.body.get(name) for name in DEPRECATED.get(call.resource, ())}
    return any(
        value in (DEPRECATED[call.resource][name] or (value,))
        for name, value in said.items()
        if value is not None
    )


def _require_phase(machine: Machine, call: Call) -> None:
    phase = call.operation.phase
    if phase in ("before start", "fresh") and machine.started:
        raise Fault(AFTER_START)
    if phase.startswith(("after start", "paused")) and not machine.started:
        raise Fault(BEFORE_START)
    if "with PCI" in phase and machine.started:
        if not machine.options.enable_pci:
            raise Fault("PCI is not enabled")
        if call.operation.method == "PUT" and call.id in machine.devices(call.resource):
            raise Fault("Device ID in use")


def find_operation(description: Description, request: Request) -> tuple[Operation, str]:
    """The operation and the id in the path, or "". Raises `Fault`.

    A path is split at each slash; parts after those that an operation needs are ignored.
    """
    parts = request.path.lstrip("/").split("/")
    parts = parts if parts[-1] else parts[:-1]
    _refuse_body_or_lack_of_it(request, parts)
    _refuse_unrecognized(request.method, parts)
    fitting = [
        one
        for one in description.operations
        if one.method == request.method
        and parts[: len(one.parts)] == one.parts
        and (one.parts or not parts)
    ]
    if not fitting:
        raise _unknown(request.method, parts)
    operation = max(fitting, key=lambda one: len(one.path.split("/")))
    return operation, _id_in(operation, parts)


def _refuse_body_or_lack_of_it(request: Request, parts: list[str]) -> None:
    may_lack = request.method == "PATCH" and parts[:2] == ["balloon", "hinting"]
    if request.method == "GET" and request.body is not None:
        raise Fault("GET request cannot have a body.")
    if request.method == "DELETE" and request.body is not None:
        raise Fault("Empty Delete request.")
    if request.method in ("PUT", "PATCH") and request.body is None and not may_lack:
        raise Fault(f"Empty {request.method} request.")


def _refuse_unrecognized(method: str, parts: list[str]) -> None:
    """Refuse a wrong second segment, with the monitor's own texts where it has them."""
    first, second, third = (*parts, "", "", "")[:3]
    hinting = {"GET": ("status",), "PATCH": ("start", "stop")}
    if [first, second] == ["balloon", "hinting"] and third not in hinting.get(method, (third,)):
        raise Fault(f"Unrecognized {method} request path `/hinting/{third}`.")
    known = {("GET", "balloon"): ("hinting", "statistics"), ("PUT", "mmds"): ("config",)}
    if second and second not in known.get((method, first), (second,)):
        raise Fault(f"Unrecognized {method} request path `{second}`.")
    if (method, first) == ("PUT", "snapshot") and second not in ("create", "load"):
        missing = Fault("Missing snapshot operation type.")
        raise _unknown("PUT", [f"/snapshot/{second}"]) if second else missing


def _unknown(method: str, parts: list[str]) -> Fault:
    """The refusal of an unknown path or method; the path is shown without its slash."""
    return Fault(f"Invalid request method and/or path: {method} {parts[0] if parts else ''}.")


def _id_in(operation: Operation, parts: list[str]) -> str:
    if not operation.parameter:
        return ""
    given = (*parts, "")[len(operation.parts)]
    if not given:
        raise Fault("The ID cannot be empty.")
    if not all(letter == "_" or letter.isalnum() for letter in given):
        raise Fault("API Resource IDs can only contain alphanumeric characters and underscores.")
    return given
