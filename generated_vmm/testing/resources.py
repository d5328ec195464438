"""Operations without a rule: store a PUT, merge a PATCH, remove on DELETE, show."""

from __future__ import annotations

from typing import Any, Final

from generated_vmm.testing.description import Json
from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import Call

NOT_FOUND: Final = "Failed perform action on device: Device not found"
LIMITER: Final = "RateLimiter"


def act_as_described(machine: Machine, call: Call) -> Json:
    """Apply the method to the resource. Raises `Fault` if it does not exist."""
    if call.operation.method == "PUT":
        _put(machine, call)
        return None
    shelf, key = _place(machine, call)
    found = shelf.get(key)
    if found is None:
        raise Fault("Device not found")
    if call.operation.method == "DELETE":
        del shelf[key]
    elif call.operation.method == "PATCH":
        shelf[key] = changed(machine, call, found) if call.body else call.content
    else:
        shown: Json = found if call.operation.parameter else machine.shown(key)
        return shown
    return None


def stored(machine: Machine, call: Call, refusal: str) -> Members:
    """The resource of a call. Raises `Fault` with the refusal if it does not exist."""
    shelf, key = _place(machine, call)
    found: Members | None = shelf.get(key)
    if found is None:
        raise Fault(refusal)
    return found


def changed(machine: Machine, call: Call, found: Members) -> Members:
    """The resource after a PATCH: absent and null members stay, limiters are merged."""
    put = machine.options.description.resources[call.resource]
    described = machine.options.description.fields(put.body)
    limiters = {name: merged(found.get(name), call.body[name]) for name in _limiters(machine, call)}
    given = {name: value for name, value in call.body.items() if value is not None} | limiters
    return found | {name: given[name] for name in given if name in described}


def _place(machine: Machine, call: Call) -> tuple[dict[str, Any], str]:
    if call.operation.parameter:
        return machine.devices(call.resource), call.id
    return machine.resources, call.resource


def _put(machine: Machine, call: Call) -> None:
    limiters = {name: effective(call.body[name]) for name in _limiters(machine, call)}
    shelf, key = _place(machine, call)
    shelf[key] = call.body | limiters or call.content


def _limiters(machine: Machine, call: Call) -> list[str]:
    fields = machine.options.description.fields(call.operation.body)
    return [name for name, spec in fields.items() if spec.get("ref") == LIMITER]


def effective(limiter: Members | None) -> Members | None:
    """The limiter as /vm/config shows it; None if it limits nothing."""
    kept = {name: _on(bucket) for name, bucket in (limiter or {}).items()}
    return kept if any(kept.values()) else None


def merged(current: Members | None, update: Members | None) -> Members | None:
    """The limiter after a PATCH: an absent bucket stays, one that is off is removed."""
    given = {name: bucket for name, bucket in (update or {}).items() if bucket is not None}
    return effective((current or dict.fromkeys(update or {})) | given)


def _on(bucket: Members | None) -> Members | None:
    """The bucket, or None for one without size or refill; a burst of 0 is none."""
    if bucket is None or 0 in (bucket.get("size"), bucket.get("refill_time")):
        return None
    return {name: value or None for name, value in bucket.items()}
