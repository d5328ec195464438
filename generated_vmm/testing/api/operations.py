"""From a request to its answer: find the operation, read the body, check the phase, act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from generated_vmm.testing.api.routing import resource_of, unknown_operation
from generated_vmm.testing.json.reader import Json, Misread
from generated_vmm.testing.json.structs import Struct, read_body
from generated_vmm.testing.json.values import read_json
from generated_vmm.testing.json.writer import json_bytes
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rules import boot
from generated_vmm.testing.wire.http_layer import Answer, Request

Shape = TypeVar("Shape", bound=Struct)


class When(Enum):
    """The phases an operation is for."""

    ALWAYS = "always"
    BEFORE = "before the start"
    AFTER = "after the start"


@dataclass(frozen=True)
class Call:
    """A request whose body has been read: what to do with the machine, and what to warn of."""

    rule: Callable[[Machine], Json]
    deprecated: bool = False


Reading = Callable[[bytes | None, str], Call]
"""Makes a `Call` of the body and the id in the path. Raises `Misread` or `Fault`."""


@dataclass(frozen=True)
class Operation:
    """`boot_path` marks what forbids loading a snapshot later, even when it is refused."""

    read: Reading
    when: When
    boot_path: bool = False


Operations = Mapping[tuple[str, str], Operation]


def answer(operations: Operations, machine: Machine, request: Request) -> Answer:
    """What the monitor answers. Never raises for a bad request."""
    deprecated = False
    try:
        operation, resource_id = _find(operations, request)
        call = operation.read(request.body, resource_id)
        deprecated = call.deprecated
        _require_phase(machine, operation.when)
        machine.boot_path_configured |= operation.boot_path
        value = call.rule(machine)
    except Misread as misread:
        text = f"An error occurred when deserializing the json body of a request: {misread}."
        return _fault_answer(Fault(text), machine, deprecated=deprecated)
    except Fault as fault:
        return _fault_answer(fault, machine, deprecated=deprecated)
    if request.method == "GET":
        return Answer(200, json_bytes(value), deprecated)
    return Answer(204, None, deprecated, machine.exit_code)


def _find(operations: Operations, request: Request) -> tuple[Operation, str]:
    path, resource_id = resource_of(request)
    operation = operations.get((request.method, path))
    if operation is None:
        raise unknown_operation(request.method, path.partition("/")[0])
    return operation, resource_id


def _require_phase(machine: Machine, when: When) -> None:
    if when is When.BEFORE and machine.started:
        raise Fault(boot.AFTER_START)
    if when is When.AFTER and not machine.started:
        raise Fault(boot.BEFORE_START)


def _fault_answer(fault: Fault, machine: Machine, *, deprecated: bool) -> Answer:
    body = json_bytes({"fault_message": str(fault)})
    return Answer(fault.status, body, deprecated, machine.exit_code)


def without_body(rule: Callable[[Machine], Json]) -> Reading:
    """An operation that looks at no body."""
    return lambda body, resource_id: Call(rule)


def by_id(rule: Callable[[Machine, str], None]) -> Reading:
    """An operation that needs only the id in the path."""
    return lambda body, resource_id: Call(lambda machine: rule(machine, resource_id))


def with_json(rule: Callable[[Machine, Json], None]) -> Reading:
    """An operation whose body is any JSON value."""

    def read(text: bytes | None, resource_id: str) -> Call:
        value = read_json(text or b"")
        return Call(lambda machine: rule(machine, value))

    return read


def with_body(
    shape: type[Shape],
    rule: Callable[[Machine, Shape], None],
    *,
    id_field: str = "",
    check: Callable[[Shape], None] = lambda body: None,
    deprecated: Callable[[Shape], bool] = lambda body: False,
) -> Reading:
    """An operation whose body has one shape; no body stands for an empty object.

    With `id_field`, that member must repeat the id of the path. `check` may refuse the body.
    """

    def read(text: bytes | None, resource_id: str) -> Call:
        body = read_body(shape, b"{}" if text is None else text)
        if id_field and getattr(body, id_field) != resource_id:
            raise _id_mismatch(id_field, resource_id, getattr(body, id_field))
        check(body)
        return Call(lambda machine: rule(machine, body), deprecated(body))

    return read


def _id_mismatch(id_field: str, in_path: str, in_body: str) -> Fault:
    if id_field == "iface_id":
        return Fault(
            f"The id from the path [{in_path}] does not match the id from the body [{in_body}]!"
        )
    return Fault("The id from the path does not match the id from the body!")
