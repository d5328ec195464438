"""All operations of the monitor in one table: method, path, body, phase, rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from . import bodies, boot, drives
from .decoding import Struct, read_body
from .full_config import get_full_config
from .http_layer import Answer, Request
from .json_reader import Json, Misread
from .json_text import json_bytes
from .machine import Fault, Machine
from .routing import resource_of, unknown_operation

Shape = TypeVar("Shape", bound=Struct)
Rule = Callable[[Machine], Json]


class When(Enum):
    """The phases an operation is for."""

    ALWAYS = "always"
    BEFORE = "before the start"
    AFTER = "after the start"


@dataclass(frozen=True)
class Call:
    """A request whose body has been read: what to do with the machine, and what to warn of."""

    rule: Rule
    deprecated: bool = False


@dataclass(frozen=True)
class Operation:
    """`read` makes a `Call` of the body and the id in the path.

    `boot_path` marks what forbids loading a snapshot later, even when it is refused.
    """

    read: Callable[[bytes | None, str], Call]
    when: When
    boot_path: bool = False


def answer(machine: Machine, request: Request) -> Answer:
    """What the monitor answers. Never raises for a bad request."""
    deprecated = False
    try:
        path, resource_id = resource_of(request)
        operation = OPERATIONS.get((request.method, path))
        if operation is None:
            raise unknown_operation(request.method, path.partition("/")[0])
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


def _fault_answer(fault: Fault, machine: Machine, *, deprecated: bool) -> Answer:
    body = json_bytes({"fault_message": str(fault)})
    return Answer(fault.status, body, deprecated, machine.exit_code)


def _require_phase(machine: Machine, when: When) -> None:
    if when is When.BEFORE and machine.started:
        raise Fault(boot.AFTER_START)
    if when is When.AFTER and not machine.started:
        raise Fault(boot.BEFORE_START)


def _plain(rule: Rule) -> Callable[[bytes | None, str], Call]:
    return lambda body, resource_id: Call(rule)


def _with(
    shape: type[Shape],
    rule: Callable[[Machine, Shape], Json],
    *,
    id_field: str = "",
    deprecated: Callable[[Shape], bool] = lambda body: False,
) -> Callable[[bytes | None, str], Call]:
    """Read a body of one shape; with `id_field`, it must name the id of the path."""

    def read(text: bytes | None, resource_id: str) -> Call:
        body = read_body(shape, text or b"")
        if id_field and getattr(body, id_field) != resource_id:
            raise _id_mismatch(id_field, resource_id, getattr(body, id_field))
        return Call(lambda machine: rule(machine, body), deprecated(body))

    return read


def _id_mismatch(id_field: str, in_path: str, in_body: str) -> Fault:
    if id_field == "iface_id":
        return Fault(
            f"The id from the path [{in_path}] does not match the id from the body [{in_body}]!"
        )
    return Fault("The id from the path does not match the id from the body!")


def _has_template(body: bodies.MachineConfig | bodies.MachineConfigUpdate) -> bool:
    return body.cpu_template is not None


OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", ""): Operation(_plain(boot.describe), When.ALWAYS),
    ("GET", "version"): Operation(_plain(boot.version), When.ALWAYS),
    ("GET", "vm/config"): Operation(_plain(get_full_config), When.ALWAYS),
    ("GET", "machine-config"): Operation(_plain(boot.get_machine_config), When.ALWAYS),
    ("PUT", "actions"): Operation(_with(bodies.Action, boot.act), When.ALWAYS),
    ("PUT", "boot-source"): Operation(
        _with(bodies.BootSource, boot.put_boot_source), When.BEFORE, boot_path=True
    ),
    ("PUT", "machine-config"): Operation(
        _with(bodies.MachineConfig, boot.put_machine_config, deprecated=_has_template),
        When.BEFORE,
        boot_path=True,
    ),
    ("PATCH", "machine-config"): Operation(
        _with(bodies.MachineConfigUpdate, boot.patch_machine_config, deprecated=_has_template),
        When.BEFORE,
        boot_path=True,
    ),
    ("PUT", "drives/{id}"): Operation(
        _with(bodies.Drive, drives.put_drive, id_field="drive_id"), When.BEFORE, boot_path=True
    ),
    ("PATCH", "vm"): Operation(_with(bodies.Vm, boot.patch_vm), When.AFTER),
}
