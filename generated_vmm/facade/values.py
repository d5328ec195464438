"""What is wrong with the values of a call that a monitor accepts, for warnings."""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from typing import Any

from generated_vmm.operation import Operation

_DEVICES = ("/drives/", "/pmem/", "/network-interfaces/")
_READ = (*_DEVICES, "/machine-config")
_IDS = {"drive_id", "id", "iface_id"}
_GROUP = re.compile("[0-9a-f][13579bdf]:", re.IGNORECASE)
_SECTOR = 512
_HOST_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


@lru_cache(maxsize=1)
def fields_in(body: bytes) -> dict[str, Any]:
    """The fields in the body of a call, which is looked at several times. Do not change them."""
    found: dict[str, Any] = json.loads(body)
    return found


def mistake_in_body(call: Operation[object]) -> str:
    """What is wrong with a call to a monitor of this host; empty if nothing is."""
    body = fields_in(call.body) if call.body and call.path.startswith(_READ) else {}
    sent = {name for name, value in body.items() if value != {}}
    if call.method == "PATCH" and sent <= _IDS and call.path.startswith(_DEVICES):
        return "it changes nothing: None is not sent. A bucket of size 0 removes a limit"
    if (size := _least_bandwidth(body)) < _SECTOR:
        return f"a bandwidth's size is in bytes, and refill_time in milliseconds: {size} is too few"
    if (size := body.get("mem_size_mib") or 0) > _HOST_MIB:
        return f"mem_size_mib={size} is more than the {_HOST_MIB} MiB of this host"
    if _GROUP.match(address := body.get("guest_mac") or ""):
        return f"guest_mac={address} is a group's address: the first byte of a device's is even"
    return ""


def _least_bandwidth(device: dict[str, Any]) -> int:
    """The bytes of the smallest bucket of a disk or interface; one of size 0 is no limit."""
    limiters = [device.get(name) or {} for name in device if name.endswith("rate_limiter")]
    buckets = filter(None, (limiter.get("bandwidth") for limiter in limiters))
    return min((bucket.get("size") or _SECTOR for bucket in buckets), default=_SECTOR)
