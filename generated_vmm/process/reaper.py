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
import resource
import select
import signal
import socket
import sys
from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGES = {"generated_vmm.process": FOLDER, "generated_vmm": os.path.dirname(FOLDER)}
if __name__ == "__main__":  # the packages import more than is needed here
    for name, folder in PACKAGES.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [folder]

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
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    wards: dict[str, Ward] = {}
    leaders: dict[int, Session] = {}
    caller = open_pidfd(caller_pid)
    if os.getppid() != caller_pid:  # it has died, and another process may have its number
        caller = None
    with contextlib.suppress(OSError):
        orders.send(READY)
    while _is_ordered(orders, caller, leaders) and _take_order(orders, wards):
        _watch(wards, leaders)
    for ward in wards.values():
        for thing, _ in ward:
            if isinstance(thing, Session):
                with contextlib.suppress(OSError):  # of one; the others end all the same
                    thing.kill()
    for session in leaders.values():  # none of these leaders had ended
        _end(session)
    for ward in wards.values():
        with contextlib.suppress(Exception):
            remove_all(ward)


def _is_ordered(orders: socket.socket, caller: int | None, leaders: dict[int, Session]) -> bool:
    """Waits for an order; false once the caller has died and all its orders are carried out.

    A session is ended at its leader's end: later another session may have its number.
    """
    while True:
        waiting = select.poll()
        for each in (orders.fileno(), *leaders, *([] if caller is None else [caller])):
            waiting.register(each, select.POLLIN)
        ready = {each for each, _ in waiting.poll(None if caller is not None else 0)}
        for leader in leaders.keys() & ready:
            _end(leaders.pop(leader))
            os.close(leader)
        if orders.fileno() in ready or caller is None or caller in ready:
            return orders.fileno() in ready


def _end(session: Session) -> None:
    with contextlib.suppress(OSError):
        session.end()


def _watch(wards: dict[str, Ward], leaders: dict[int, Session]) -> None:
    """Opens the leaders of new sessions, and closes those of sessions that are gone.

    Not those of jails: their processes have a root, and the jailer may end before the monitor.
    """
    entrusted = [thing for ward in wards.values() for thing, _ in ward]
    for leader, session in list(leaders.items()):
        if session not in entrusted:
            del leaders[leader]
            os.close(leader)
    for thing in entrusted:
        if isinstance(thing, Session) and thing.root is None and thing not in leaders.values():
            opened = open_pidfd(thing.leader)
            if opened is not None and thing.has_leader:
                leaders[opened] = thing
            elif opened is not None:
                os.close(opened)


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
