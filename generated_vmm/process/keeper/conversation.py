"""What the owner of a monitor orders, and a keeper's side of the connection to it."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.annotations import Any
from generated_vmm.process.keeper.kernel import Descriptor, is_ready, ready_of
from generated_vmm.process.keeper.record import Record

GIVEN_FOLDER = 3  # the descriptor of the socket's folder in a monitor, if its path is too long


class Goal(IntEnum):
    """What the owner wants, the strongest last."""

    CLAIM, START, STOP, KILL = range(4)


class Order:
    """How a monitor is started.

    `socket` is the API's: folder and name; in a jail, the path below its root. `inherits` says
    whether the monitor gets that folder as GIVEN_FOLDER. `owner` is the monitor's user and
    group. With `new_pid_ns`, the program's child takes its place.
    """

    def __init__(
        self,
        record: Record,
        *,
        owner: tuple[int, int],
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        timeout: float,
        detached: bool,
        socket: tuple[str, str],
        inherits: bool = False,
        new_pid_ns: bool = False,
    ) -> None:
        self.record, self.owner, self.socket = record, owner, socket
        self.argv, self.env, self.cwd = argv, env, cwd
        self.timeout, self.detached = timeout, detached
        self.inherits, self.new_pid_ns = inherits, new_pid_ns


class Conversation:
    """A keeper's side of the connection to its owner. Without an owner, nobody is told anything."""

    def __init__(self, owner: socket.socket, caller: Descriptor) -> None:
        self.goal, self.grace = Goal.CLAIM, math.inf
        self.has_bound = self.outlives_owner = False
        self.begin(owner, caller)

    def begin(self, owner: socket.socket, caller: Descriptor) -> None:
        """Talks to a new owner, whose process is the caller."""
        owner.setblocking(False)
        self._owner: socket.socket | None = owner
        self._caller = caller

    @property
    def pid(self) -> int | None:
        """The number of the owner's process; None without an owner."""
        return None if self._owner is None else messages.peer_of(self._owner)[0]

    def tell(self, event: str, given: Iterable[int] = (), **what: Any) -> None:
        """Tells the owner of an event, with descriptors."""
        if self._owner is not None:
            messages.send(self._owner, {"event": event, **what}, given)

    def wait(self, seconds: float | None, *others: int) -> set[int]:
        """Waits for the owner's words, which it takes, and for other descriptors: the ready ones.

        A forked child of the caller may have a copy of the connection, so the caller's end counts.
        """
        owner = self._owner
        ours = [] if owner is None else [owner.fileno(), self._caller.number]
        ready = ready_of([*ours, *others], seconds)
        if owner is not None and ready.intersection(ours):
            is_gone = is_ready(self._caller.number)
            for received in messages.drain(owner):
                if received is None:
                    is_gone = True
                else:
                    self._take(received[0])
            if is_gone:
                self._lose_owner()
        return ready

    def _take(self, said: Mapping[str, Any]) -> None:
        word = said["word"]
        self.has_bound |= word == "bound"
        if word == "stop":
            self.grace = min(self.grace, said["grace"])
        if word.upper() in Goal.__members__:
            self.goal = max(self.goal, Goal[word.upper()])

    def _lose_owner(self) -> None:
        """Its monitor ends, unless it is to survive."""
        if self._owner is not None:
            self._owner.close()
        self._owner = None
        if not self.outlives_owner:
            self.goal = Goal.KILL
