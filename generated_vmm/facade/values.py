"""What is wrong with the values of a call that a monitor accepts, for warnings."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from generated_vmm.operation import Operation

_DEVICES = ("/drives/", "/pmem/", "/network-interfaces/")
_READ = (*_DEVICES, "/machine-config")
_IDS = {"drive_id", "id", "iface_id"}
_GROUP = re.compile("[0-9a-f][13579bdf]:", re.IGNORECASE)
_SECTOR, _SHORTEST, _LEAST_MIB = 512, 10, 8
_DISKS = ("/drives/", "/pmem/")
_REMEMBERED = (*_DISKS, "/boot-source", "/mmds")
_PERSISTS = 0x800  # IFF_PERSIST, linux/if_tun.h
_HOST_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


@lru_cache(maxsize=1)
def fields_in(body: bytes) -> dict[str, Any]:
    """The fields in the body of a call, which is looked at several times. Do not change them."""
    found: dict[str, Any] = json.loads(body)
    return found


class Advice:
    """What is wrong with the calls to one monitor, of which it remembers those accepted."""

    def __init__(self, *, has_metadata: bool = False, has_taps: bool = True) -> None:
        """`has_metadata` from the start; `has_taps`: the monitor is in this network namespace."""
        self._accepted: dict[str, dict[str, Any]] = {"/mmds": {}} if has_metadata else {}
        self._has_taps = has_taps

    def __call__(self, call: Operation[object], *, is_accepted: bool) -> str:
        """What is wrong with a call before it is sent, or afterwards; empty if nothing is."""
        if call.method == "GET":
            return ""
        if not is_accepted:
            return (
                mistake_in_body(call) or self._mistake_of_file(call) or self._mistake_of_start(call)
            )
        if call.path.startswith(_REMEMBERED):
            self._accepted[call.path] = fields_in(call.body) if call.body else {}
        if _starts(call):  # the next monitor at this socket is another one
            self._accepted.clear()
        return self._mistake_of_tap(call)

    def _mistake_of_start(self, call: Operation[object]) -> str:
        known = self._accepted
        if not _starts(call):
            return ""
        if _lacks_root(known):
            return (
                "no disk is the root device, and boot_args has no root=: Linux finds no file system"
            )
        if "/mmds" in known and "/mmds/config" not in known:
            return "no interface serves the metadata: call mmds.config.set(...) before the start"
        return ""

    def _mistake_of_file(self, call: Operation[object]) -> str:
        disk = fields_in(call.body) if call.body and call.path.startswith(_DISKS) else {}
        for path, other in list(self._accepted.items()):
            if path != call.path and _shares(disk, other):
                return f"{path} is the same file: the guest destroys it, unless both are read only"
        return ""

    def _mistake_of_tap(self, call: Operation[object]) -> str:
        if not (self._has_taps and call.body and call.path.startswith("/network-interfaces/")):
            return ""
        tap = str(fields_in(call.body).get("host_dev_name", ""))
        made = f"there was no tap {tap!r}: the monitor has made one, which leads nowhere"
        return made if _is_made(tap) else ""


@lru_cache(maxsize=256)
def advice_at(_socket_path: str) -> Advice:
    """What all clients of a socket share: one sets what another one starts."""
    return Advice()


def _lacks_root(known: dict[str, dict[str, Any]]) -> bool:
    """Whether a kernel gets disks, but none of them, no RAM disk and no argument is its root."""
    source = known.get("/boot-source")
    disks = [body for path, body in list(known.items()) if path.startswith(_DISKS)]
    if source is None or source.get("initrd_path") or "root=" in (source.get("boot_args") or ""):
        return False
    return any(disks) and not any(map(is_root, disks))


def _starts(call: Operation[object]) -> bool:
    return call.path == "/actions" and b"InstanceStart" in (call.body or b"")


def _shares(disk: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two disks are one file, and the guest writes to it."""
    path = disk.get("path_on_host")
    is_written = not (is_read_only(disk) and is_read_only(other))
    return bool(path) and path == other.get("path_on_host") and is_written


def is_read_only(disk: dict[str, Any]) -> bool:
    """Whether a guest only reads a drive or persistent memory."""
    return bool(disk.get("is_read_only") or disk.get("read_only"))


def is_root(disk: dict[str, Any]) -> bool:
    """Whether a drive or persistent memory is the root device."""
    return bool(disk.get("is_root_device") or disk.get("root_device"))


def _is_made(tap: str) -> bool:
    """Whether a tap of this host ends with the monitor, as one that a monitor has made itself."""
    with suppress(OSError, ValueError):
        return not int(Path("/sys/class/net", tap, "tun_flags").read_text(), 16) & _PERSISTS
    return False


def mistake_in_body(call: Operation[object]) -> str:
    """What is wrong with a call to a monitor of this host; empty if nothing is."""
    body = fields_in(call.body) if call.body and call.path.startswith(_READ) else {}
    sent = {name for name, value in body.items() if value != {}}
    if call.method == "PATCH" and sent <= _IDS and call.path.startswith(_DEVICES):
        return "it changes nothing: None is not sent. A bucket of size 0 removes a limit"
    for size, time in _bandwidths(body):
        if size < _SECTOR or time < _SHORTEST:
            return f"size={size} of a bandwidth is in bytes, and refill_time={time} in milliseconds"
    if (size := body.get("mem_size_mib") or 0) > _HOST_MIB:
        return f"mem_size_mib={size} is more than the {_HOST_MIB} MiB of this host"
    if 0 < size < _LEAST_MIB:
        return f"mem_size_mib={size} is in MiB, and Linux needs more"
    if _GROUP.match(address := body.get("guest_mac") or ""):
        return f"guest_mac={address} is a group's address: the first byte of a device's is even"
    return ""


def _bandwidths(device: dict[str, Any]) -> list[tuple[int, int]]:
    """Size and refill_time of the limits of a disk or interface; 0 is no limit."""
    limiters = [device.get(name) or {} for name in device if name.endswith("rate_limiter")]
    buckets = filter(None, (limiter.get("bandwidth") for limiter in limiters))
    found = ((bucket.get("size"), bucket.get("refill_time")) for bucket in buckets)
    return [(size, time) for size, time in found if size and time]
