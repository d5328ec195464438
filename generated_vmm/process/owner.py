"""The caller's side of a keeper: orders for it, and what it tells of its monitor.

A thread for each monitor reads what the keeper tells, and the monitor's outlets. Words for the
keeper are sent by whoever has them: threads, tasks and signal handlers. Nobody holds a lock while
it waits, so a signal handler may end the monitor that the interrupted code is stopping.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Literal, TypeAlias

from generated_vmm.errors import VmmConnectionError
from generated_vmm.process.attaching import attach
from generated_vmm.process.broadcast import Broadcast
from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import (
    LONGEST_END,
    PROCESS_LIMIT,
    Refused,
    exit_in_words,
    is_ready,
    reason,
)
from generated_vmm.process.keeper.leftovers import recover
from generated_vmm.process.nursery import NURSERY, in_memory
from generated_vmm.process.outlets import Outlets
from generated_vmm.process.place import Place
from generated_vmm.process.program import Descriptor
from generated_vmm.transport.connection import popped, start_over_in_children

ATTEMPTS = 3
LONGEST_ENDING = 2 * LONGEST_END  # of the process, and then of the removal

Ending: TypeAlias = Literal["ended", "handed over", "lost"]
"""How an owner's time with a monitor is over."""


Word: TypeAlias = tuple[dict[str, Any], Descriptor | None]


class Phase(IntEnum):
    """How far a monitor is."""

    NEW, CLAIMED, RUNNING, FINISHED = range(4)


class Owner(Broadcast):
    """This process as the owner of a monitor. `place` is where the monitor is."""

    def __init__(self, place: Place, outlets: Outlets) -> None:
        super().__init__()
        self.place, self.outlets = place, outlets
        self.phase = Phase.NEW
        self.ending: Ending | None = None
        self.returncode: int | None = None
        self.failure: BaseException | None = None
        self.left: list[str] = []
        self.noted = 0
        self.vsock_path: str | None = None
        self.has_ended = self.was_started = False
        self._pid: int | None = None
        self._pidfd: Descriptor | None = None
        self._connection: socket.socket | None = None
        self._process: int | None = None
        self._is_told = False
        self._begun = [True]  # a thread that takes it begins, or decides that there is nothing
        self._words: deque[Word] = deque()

        self.root: Descriptor | None = None
        self.socket: Descriptor | None = None
        self._said: list[Word] = []
        self.was_stopped = False
        start_over_in_children(self)

    # What callers want

    def claim(self) -> None:
        """Orders a keeper that takes the monitor's folder."""
        known, claim = self.place.known(), self.place.claim()
        self.begin(lambda: NURSERY.order(known, claim))

    def attach(self) -> None:
        """Follows the keeper of a detached monitor."""
        self.was_started = True
        self.begin(self._attach)

    def begin(self, connect: Callable[[], socket.socket]) -> None:
        """Begins with a keeper, unless that has begun."""
        if popped(self._begun):
            self.failure, self._process = None, os.getpid()
            thread = threading.Thread(
                target=self._live, args=[connect], name="monitor", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                self._begun.append(True)
                raise MonitorStartError(f"no thread can be started: {PROCESS_LIMIT}") from None

    def say(self, word: str, given: Descriptor | None = None, **what: Any) -> None:
        """Sends a word to the keeper, as soon as there is one, with a descriptor if it has one."""
        if self.is_foreign or self.phase is Phase.FINISHED:
            return
        self._words.append(({"word": word, **what}, given))
        if word in ("stop", "kill", "detach"):
            self.was_stopped |= word != "detach"
            if popped(self._begun):
                return self._finish()  # there is nothing to end
        self._send_words()

    def claim_once(self) -> None:
        """Orders a keeper for the start of the monitor. Raises `MonitorError` for a second one."""
        self.require_fresh()
        self.was_started = True
        self.claim()

    def start(self) -> None:
        """Orders the start. Raises `MonitorStartError` for what cannot be started."""
        try:
            order = in_memory(vars(self.place.order()))
        except OSError as error:
            raise MonitorStartError(f"the start cannot be ordered: {reason(error)}") from error
        self.say("start", order)

    def connect(self, connection: socket.socket) -> None:
        """Connects to the API of this monitor, and to nothing else. Raises OSError."""
        found = self.socket
        if found is None:
            raise FileNotFoundError(f"no monitor listens on {self.place.socket_path}")
        connection.connect(f"/proc/self/fd/{found.number}")

    def opened_root(self) -> Descriptor:
        """The root of a jail. Raises OSError if there is none now."""
        root = self.root
        if root is None:
            raise FileNotFoundError(f"{self.place.directory} is not open")
        return root

    @contextlib.contextmanager
    def opened_vsock(self, path: str) -> Iterator[str]:
        """A path of the vsock device's socket that cannot be redirected."""
        root = self.root
        try:
            found = Descriptor(self.place.open_socket(path, None if root is None else root.number))
        except OSError as error:
            raise VmmConnectionError(f"the vsock device's socket {path}: {error}") from error
        yield f"/proc/self/fd/{found.number}"

    def require_fresh(self) -> None:
        """Raises `MonitorError` if the monitor was started before."""
        if self.was_started or self.phase >= Phase.RUNNING:
            raise MonitorError("a monitor is started once; create another one")

    def has(self, phase: Phase) -> Callable[[], bool]:
        """Whether the monitor has come to a phase, or never will: then its keeper has ended."""
        return lambda: self.phase >= phase or self._has_failed or self.is_foreign

    def require_unfinished(self) -> None:
        """Raises the error of a monitor that did not start, or was stopped."""
        if self.failure is not None:
            raise self.failure
        if self.phase is Phase.FINISHED:
            raise MonitorStartError("the monitor was stopped meanwhile")

    def stuck(self, seconds: float) -> MonitorError:
        """The error of a monitor that does not end."""
        if self.has_ended:
            return MonitorError(f"the monitor ended, and is still being removed after {seconds} s")
        return MonitorError(f"process {self.pid} was killed and does not end within {seconds} s")

    def tell_exit(self, error: BaseException | None) -> None:
        """Raises `MonitorExited`, or adds it to the current error."""
        if error is None:
            raise self.exited()
        if not isinstance(error, MonitorExited):
            error.add_note(str(self.exited()))

    def require_removed(self) -> None:
        """Raises `MonitorError` if something of the monitor could not be removed."""
        if self.left:
            what = f"some of what the monitor had could not be removed: {'; '.join(self.left)}"
            raise MonitorError(what, returncode=self.returncode)

    def remove_left(self) -> None:
        """Tries once more to remove what a keeper could not. Raises `MonitorError`."""
        if self.left and not self.is_foreign:
            try:
                recover(str(self.place.directory))
            except (Refused, OSError) as error:
                raise MonitorError(str(error), returncode=self.returncode) from error
            self.left = []

    # What is known

    @property
    def is_foreign(self) -> bool:
        """Whether the monitor belongs to the process that this one was forked from."""
        return self._process not in (None, os.getpid())

    @property
    def pid(self) -> int:
        """The number of the monitor's process. Raises `MonitorError` before its start."""
        if self._pid is None:
            raise MonitorError("the monitor has not been started")
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        pidfd = self._pidfd
        return pidfd is not None and not is_ready(pidfd.number, 0)

    def is_over(self) -> bool:
        """Whether the process has ended, or this process has given it up."""
        return self.has_ended or self.phase is Phase.FINISHED or self.is_foreign

    def has_noted(self, before: int) -> bool:
        """Whether the keeper has noted since then what the monitor bound, or never will."""
        return self.noted > before or self.is_over()

    def has_ended_badly(self) -> bool:
        """Whether the monitor has ended by itself, and not because its guest shut down."""
        failed = bool(self.returncode) or self._is_lost
        return not self.is_foreign and not self.was_stopped and failed

    def exited(self) -> MonitorExited:
        """The error for a monitor that ended by itself."""
        code = self.returncode
        how = "was lost: its keeper was killed" if self._is_lost else f"ended {exit_in_words(code)}"
        what = f"the monitor of {self.place.socket_path} {how}"
        return MonitorExited(what, returncode=code, log=self._last_words())

    @property
    def _has_failed(self) -> bool:
        return self.failure is not None and self._connection is None

    @property
    def _is_lost(self) -> bool:
        return self.ending == "lost"

    def _last_words(self) -> list[str]:
        return self.outlets.last_words(self.place.log_file())

    def __repr__(self) -> str:
        if self._pid is None:
            return "not started"
        if self.is_running:
            return f"{self._pid} running"
        is_known = self.ending in (None, "ended")
        return (
            f"{self._pid} {f'ended {exit_in_words(self.returncode)}' if is_known else self.ending}"
        )

    # In the thread

    def _live(self, connect: Callable[[], socket.socket]) -> None:
        """Follows a keeper to its end; another one if it was killed before it had the folder."""
        try:
            for _ in range(ATTEMPTS):
                with connect() as connection:
                    self._connection = connection
                    while self._hear(connection):
                        pass
                if self._is_told or self.phase is not Phase.NEW:
                    break
                self._words.extendleft(self._said[::-1])
                self._said.clear()
            if not self._is_told:
                self._note_lost()
        except BaseException as error:
            self._fail(error)
        self._finish()

    def _attach(self) -> socket.socket:
        answer = attach(self.place)
        self._note_told(answer.told, answer.given)
        return answer.connection

    def _send_words(self) -> None:
        connection = self._connection
        while connection is not None and (word := popped_first(self._words)) is not None:
            self._said.append(word)
            what, given = word
            messages.send(connection, what, [] if given is None else [given.number])

    def _hear(self, connection: socket.socket) -> bool:
        """Reads the outlets until the keeper tells something; false once it tells no more."""
        self._send_words()
        self.outlets.read_until(connection.fileno())
        received = messages.receive(connection)
        if received is None:
            return False
        self._note_told(*received)
        return True

    def _note_told(self, told: dict[str, Any], given: list[int]) -> None:
        self._is_told = told["event"] in ("removed", "released")
        self.note(told.pop("event"), given, **told)

    def note(self, event: str, given: list[int], **told: Any) -> None:
        """Notes what the keeper tells."""
        descriptors = [Descriptor(each) for each in given]
        if event == "taken":
            self.root = descriptors[0] if descriptors else None
            self.phase = max(self.phase, Phase.CLAIMED)
        elif event == "started":
            if self._pid is None:
                self.outlets.open(dict(zip(told["outlets"], descriptors[1:], strict=True)))
            self._pid, self._pidfd = told["pid"], descriptors[0]
        elif event == "ready":
            self.socket, self.phase = descriptors[0], Phase.RUNNING
        elif event == "released":
            self.ending = "handed over"
        elif event == "ended":
            self.outlets.end()
            self.returncode, self.ending = told["status"], "ended"
            self.has_ended = self._pid is not None
        elif event == "removed":
            self._note_removed(**told)
        if event in ("ready", "noted"):
            self.vsock_path, self.noted = told["vsock"], self.noted + 1
        self.notify()

    def _note_removed(self, failure: Mapping[str, Any] | None, left: list[str]) -> None:
        self.left = left
        if failure is not None and self.phase is Phase.RUNNING:
            self.left.append(failure["text"])
        elif failure is not None:
            error = MonitorStartError(
                failure["text"], returncode=self.returncode, log=self._last_words()
            )
            number, path = failure["errno"], failure["path"]
            if number:
                error.__cause__ = OSError(number, os.strerror(number), path)
            self.failure = error

    def _note_lost(self) -> None:
        if self.phase is Phase.RUNNING:
            self.ending, self.has_ended = "lost", True
        else:
            self.failure = MonitorStartError("the monitor's keeper was killed")

    def _fail(self, error: BaseException) -> None:
        """An error of this side: the keeper hears nothing more, and undoes everything."""
        if isinstance(error, OSError) and not isinstance(
            error, MonitorError
        ):  # anew, without the frames, which hold descriptors
            found = MonitorStartError(f"no keeper can be started: {reason(error)}")
            found.__cause__ = OSError(error.errno, reason(error), error.filename)
            self.failure = found
        else:
            self.failure = error.with_traceback(None)

    def _finish(self) -> None:
        """Closes everything. A claim that failed may be tried again."""
        self.outlets.end()
        self._connection = self._pidfd = self.root = self.socket = None
        self._said.clear()
        self._words.clear()
        if self.was_started or self.failure is None or self.was_stopped:
            self.phase = Phase.FINISHED
        else:
            self.phase = Phase.NEW
            self._begun.append(True)
            if self.was_stopped and popped(self._begun):  # meanwhile
                self.phase = Phase.FINISHED
        self.notify()

    def start_over(self) -> None:
        """Closes the descriptors in a forked process: the monitor belongs to the parent."""
        connection = self._connection
        if connection is not None:
            connection.close()
        self.outlets.abandon()
        self._connection = self._pidfd = self.root = self.socket = None


def popped_first(words: deque[Word]) -> Word | None:
    """The first word, which no other thread or signal handler gets then; None if there is none."""
    try:
        return words.popleft()
    except IndexError:
        return None
