"""The reaper: a program that removes what a dead caller leaves behind.

`python reaper.py CALLER_PID SYS_PATH` takes orders on descriptor 0. It hears of each thing before
the thing is created, and gets the descriptors that name it. When the caller has died, by any
signal, it removes what is left. It imports only the standard library and two modules beside it, so
that it is small and starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from types import ModuleType

PACKAGES = {
    "generated_vmm.process": Path(__file__).parent,
    "generated_vmm": Path(__file__).parents[1],
}
if __name__ == "__main__":  # the packages import more than is needed here
    for name, folder in PACKAGES.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(folder)]

from generated_vmm.process.removal import open_pidfd  # noqa: E402
from generated_vmm.process.things import Session, Ward, from_json, in_json, remove_all  # noqa: E402

LONGEST_ORDER = 65_536
READY = b"ready"


def order(key: str, ward: Ward | None) -> bytes:
    """The message that entrusts things, without their descriptors; None takes them away again."""
    things = None if ward is None else [[*in_json(thing), fd is not None] for thing, fd in ward]
    message = json.dumps([key, things]).encode()
    if len(message) > LONGEST_ORDER:
        raise ValueError("the paths of the monitor's files are too long")
    return message


def main(caller_pid: int, orders: socket.socket) -> None:
    """Takes orders until the caller has died, then removes what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wards: dict[str, Ward] = {}
    caller = open_pidfd(caller_pid)
    if os.getppid() != caller_pid:  # it has died, and another process may have its number
        caller = None
    with contextlib.suppress(OSError):
        orders.send(READY)
    while _is_ordered(orders, caller) and _take_order(orders, wards):
        pass
    for ward in wards.values():
        for thing, _ in ward:
            if isinstance(thing, Session):
                thing.kill()
    for ward in wards.values():
        with contextlib.suppress(Exception):
            remove_all(ward)


def _is_ordered(orders: socket.socket, caller: int | None) -> bool:
    """Waits for an order; false once the caller has died and all its orders are carried out."""
    waiting = select.poll()
    waiting.register(orders, select.POLLIN)
    if caller is not None:
        waiting.register(caller, select.POLLIN)
    ready = waiting.poll(None if caller is not None else 0)
    return any(descriptor == orders.fileno() for descriptor, _ in ready)


def _take_order(orders: socket.socket, wards: dict[str, Ward]) -> bool:
    """Carries out one order; false if there will be no other."""
    try:
        message, descriptors, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 64)
    except ConnectionError:
        return False
    if not message:
        return False
    key, things = json.loads(message)
    for _, descriptor in wards.pop(key, []):
        if descriptor is not None:
            os.close(descriptor)
    if things is not None:
        given = iter(descriptors)
        wards[key] = [(from_json(thing), next(given) if has else None) for *thing, has in things]
    return True


if __name__ == "__main__":
    for name in PACKAGES:
        del sys.modules[name]
    sys.path[:] = json.loads(sys.argv[2])
    main(int(sys.argv[1]), socket.socket(fileno=0))
