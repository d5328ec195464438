"""What a keeper hears: the words of its owner, and those who come to the folder."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import LONGEST_POLL, is_ready
from generated_vmm.process.keeper.record import Record

LONGEST_UNSEEN = 30.0  # seconds until a monitor without an owner notes that its folder is gone


class Goal(IntEnum):
    """What the owner wants, the strongest last."""

    CLAIM, START, STOP, KILL = range(4)


@dataclass
class Order:
    """How a monitor is started, once its folder is taken.

    `socket` is the API's: folder and name; in a jail, the path below its root. `inherits` says
    whether the monitor gets that folder as descriptor 3. `owner` is the user of a jail's files.
    With `follows`, the program's child takes its place.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    timeout: float
    detached: bool
    socket: tuple[str, str]
    inherits: bool = False
    owner: tuple[int, int] | None = None
    groups: Sequence[str] = ()
    follows: bool = False


class Conversation(ABC):
    """A keeper's side of the connections to its owner and to others."""

    order: Order

    def __init__(self, owner: socket.socket, caller: int, record: Record) -> None:
        self.record = record
        self.goal, self.grace = Goal.CLAIM, float("inf")
        self.is_up = False
        self._owner: socket.socket | None = owner
        self._caller = caller
        self._listener: socket.socket | None = None
        self._guests: dict[int, socket.socket] = {}
        self._leader, self._pidfd = 0, -1
        self._may_bind = self._has_bound = False

    @abstractmethod
    def _adopt(self) -> None:
        """Tells a new owner everything."""

    def _look(self, seconds: float | None, *others: socket.socket) -> None:
        """Waits until something happens, or the time is up."""
        waiting = select.poll()
        watched = [*others, *self._guests.values(), *filter(None, (self._owner, self._listener))]
        numbers = [self._pidfd, *([self._caller] if self._owner else [])]
        for each in (*(one.fileno() for one in watched), *(one for one in numbers if one >= 0)):
            waiting.register(each, select.POLLIN)
        if seconds is None:
            seconds = LONGEST_UNSEEN if self._owner is None else LONGEST_POLL
        limit = min(seconds * 1000, LONGEST_POLL)
        ready = {each for each, _ in waiting.poll(max(0, limit))}
        if self._owner is not None and ready & {self._owner.fileno(), self._caller}:
            self._hear(self._owner)
        if not self._has_ended():  # else they read the record, once it says how
            for number in ready & self._guests.keys():
                self._receive(self._guests.pop(number))
        if self._listener is not None and self._listener.fileno() in ready:
            guest, _ = self._listener.accept()
            guest.setblocking(False)
            self._guests[guest.fileno()] = guest

    def _has_ended(self) -> bool:
        return self._pidfd >= 0 and is_ready(self._pidfd, 0)

    def _hear(self, owner: socket.socket) -> None:
        """Takes the owner's words; without it, a monitor that is not detached is to end."""
        is_gone = is_ready(self._caller, 0)
        for received in messages.drain(owner):
            if received is None:
                is_gone = True
            else:
                self._take_word(*received)
            if self._owner is None:  # it has given the monitor up
                return
        if is_gone:
            self._lose_owner()
            if not (self.is_up and self.order.detached):
                self.goal = Goal.KILL

    def _take_word(self, said: Mapping[str, Any], given: Sequence[int]) -> None:
        word = said["word"]
        if word == "start":
            self.order = Order(**messages.content_of(given[0]))
        if word == "stop":
            self.grace = min(self.grace, said["grace"])
        if word in ("start", "stop", "kill"):
            self.goal = max(self.goal, Goal[word.upper()])
        elif word == "binding":
            self._may_bind = True
        elif word == "bound":
            self._has_bound = True
        elif word == "detach":
            self._tell("released")
            self._lose_owner()

    def _lose_owner(self) -> None:
        if self._owner is not None:
            self._owner.close()
            os.close(self._caller)
        self._owner = None

    def _receive(self, guest: socket.socket) -> None:
        """Answers somebody who came to the folder; one of them may become the owner."""
        with contextlib.suppress(OSError):
            received = messages.receive(guest)
            said, given = received or ({"word": ""}, [])
            if said["word"] == "attach" and self._owner is None and self.is_up:
                self._owner, (self._caller,) = guest, given
                return self._adopt()
            for each in given:
                os.close(each)
            owner = 0 if self._owner is None else messages.peer_of(self._owner)[0]
            status = "detached" if self._owner is None else "owned"
            pid, name = self._leader or None, self.record.id
            messages.send(
                guest,
                {"event": "seen", "status": status, "pid": pid, "owner": owner or None, "id": name},
            )
        guest.close()

    def _tell(self, event: str, given: Sequence[int] = (), **what: Any) -> None:
        if self._owner is not None:
            messages.send(self._owner, {"event": event, **what}, given)
