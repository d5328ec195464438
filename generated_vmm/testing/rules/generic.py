"""Operations without a state rule: what is sent is kept, and shown where the description says."""

from __future__ import annotations

from generated_vmm.testing.description import Json, config_member
from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import Call
from generated_vmm.testing.rules.devices import place_of


def store_as_described(machine: Machine, call: Call) -> Json:
    """Keep a PUT, merge a PATCH, forget a DELETE, and show what there is."""
    keep = {"PUT": _put, "PATCH": _patch, "DELETE": _delete}.get(call.operation.method)
    if keep is None:
        return _found(machine, call)
    keep(machine, call)
    return None


def _shelf(machine: Machine, call: Call) -> tuple[Members, str]:
    """The place for what belongs to this path."""
    member = config_member(call.operation.path)
    if member is not None:
        return machine.config, member
    return machine.stored, call.operation.path


def _put(machine: Machine, call: Call) -> None:
    shelf, name = _shelf(machine, call)
    key = call.operation.parameter
    if not key:
        shelf[name] = call.body or call.content
        return
    devices = shelf.setdefault(name, [])
    at = place_of(devices, key, call.resource_id)
    devices[at : at + 1] = [{key: call.resource_id} | call.body]


def _patch(machine: Machine, call: Call) -> None:
    known = _found(machine, call)
    changes = call.body or call.content
    if isinstance(known, dict) and isinstance(changes, dict):
        known.update({key: value for key, value in changes.items() if value is not None})


def _delete(machine: Machine, call: Call) -> None:
    known = _found(machine, call)
    shelf, name = _shelf(machine, call)
    if call.operation.parameter:
        shelf[name].remove(known)
    else:
        shelf[name] = None


def _found(machine: Machine, call: Call) -> Json:
    shelf, name = _shelf(machine, call)
    known = shelf.get(name)
    key = call.operation.parameter
    if key:
        known = next((one for one in known or () if one[key] == call.resource_id), None)
    if known is None:
        raise Fault("Device not found")
    found: Json = known
    return found
