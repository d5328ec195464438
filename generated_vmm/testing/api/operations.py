"""From a request to its answer: find the operation, read the body, check the phase, act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from generated_vmm.testing.api.routing import find_operation
from generated_vmm.testing.bodies.json_text import Misread, json_bytes
from generated_vmm.testing.bodies.shapes import read_body
from generated_vmm.testing.description import SCHEMAS, Json, config_member
from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import RULES, Call
from generated_vmm.testing.rules import boot, snapshots
from generated_vmm.testing.rules.generic import store_as_described
from generated_vmm.testing.wire.http_layer import Answer, Request

HIDDEN: Final = frozenset({"cpu-config", "logger", "metrics"})
"""Members of GET /vm/config that stay null, and do not forbid a snapshot load."""

CHECKS: Final[Mapping[str, Callable[[Members], None]]] = {
    "PATCH /machine-config": boot.refuse_empty,
    "PUT /snapshot/load": snapshots.require_one_memory,
}
"""What a body must be beyond its description, before the phase is looked at."""

DEPRECATED: Final[Mapping[str, Callable[[Members], bool]]] = {
    "PATCH /machine-config": lambda body: body["cpu_template"] is not None,
    "PUT /machine-config": lambda body: body["cpu_template"] is not None,
    "PUT /mmds/config": lambda body: body["version"] == "V1",
    "PUT /snapshot/load": lambda body: bool(
        body["mem_file_path"] is not None or body["enable_diff_snapshots"]
    ),
    "PUT /vsock": lambda body: body["vsock_id"] is not None,
}
"""Bodies whose answer has the header `Deprecation`."""


def answer(machine: Machine, request: Request) -> Answer:
    """What the monitor answers. Never raises for a bad request."""
    try:
        call = read_call(request)
    except Misread as misread:
        text = f"An error occurred when deserializing the json body of a request: {misread}."
        return _fault_answer(Fault(text), machine)
    except Fault as fault:
        return _fault_answer(fault, machine)
    is_deprecated = DEPRECATED.get(call.operation.endpoint)
    deprecated = is_deprecated is not None and is_deprecated(call.body)
    try:
        value = carry_out(machine, call)
    except Fault as fault:
        return _fault_answer(fault, machine, deprecated=deprecated)
    if request.method == "GET":
        return Answer(200, json_bytes(value), deprecated)
    return Answer(204, None, deprecated, machine.exit_code)


def read_call(request: Request) -> Call:
    """The operation a request means and its body. Raises `Misread` or `Fault`."""
    operation, resource_id = find_operation(request)
    if operation.body is None:
        return Call(operation, resource_id, {})
    text = b"{}" if request.body is None else request.body
    body = read_body(operation.body, text)
    if "fields" not in SCHEMAS[operation.body] or not isinstance(body, dict):
        return Call(operation, resource_id, {}, body)
    if operation.parameter in body and body[operation.parameter] != resource_id:
        raise _id_mismatch(operation.parameter, resource_id, str(body[operation.parameter]))
    check = CHECKS.get(operation.endpoint)
    if check is not None:
        check(body)
    return Call(operation, resource_id, body)


def carry_out(machine: Machine, call: Call) -> Json:
    """What the operation gives, after the machine has changed. Raises `Fault`."""
    _require_phase(machine, call.operation.phase)
    member = config_member(call.operation.path)
    if not machine.started and call.operation.method != "GET" and member not in (None, *HIDDEN):
        machine.boot_path_configured = True
    return RULES.get(call.operation.endpoint, store_as_described)(machine, call)


def _require_phase(machine: Machine, phase: str) -> None:
    if phase in ("before start", "fresh") and machine.started:
        raise Fault(boot.AFTER_START)
    if phase.startswith(("after start", "paused")) and not machine.started:
        raise Fault(boot.BEFORE_START)


def _fault_answer(fault: Fault, machine: Machine, *, deprecated: bool = False) -> Answer:
    body = json_bytes({"fault_message": str(fault)})
    return Answer(fault.status, body, deprecated, machine.exit_code)


def _id_mismatch(parameter: str, in_path: str, in_body: str) -> Fault:
    if parameter == "iface_id":
        return Fault(
            f"The id from the path [{in_path}] does not match the id from the body [{in_body}]!"
        )
    return Fault("The id from the path does not match the id from the body!")
