"""This process as the owner of a monitor: what it wants of the keeper, and what it knows of it.

Nobody holds a lock while it waits, so a signal handler may end the monitor that the interrupted
code is stopping.
"""

from __future__ import annotations

import contextlib
import socket
from _thread import start_new_thread
from collections.abc import Callable
from enum import IntEnum
from typing import Literal, TypeAlias

from generated_vmm.errors import VmmConnectionError
from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.keeper import kernel, messages
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.nursery import NURSERY
from generated_vmm.process.outlets import Broadcast, Outlets
from generated_vmm.process.place import Place
from generated_vmm.transport.connection import popped, start_over_in_children

ORPHAN_SECONDS = 2.0  # for the nursery to end a monitor whose keeper was killed
LONGEST_ENDING = 2 * kernel.LONGEST_END  # of the process, and then of the removal

NOT_STARTED = "the monitor has not been started: start() does, or its `with` block"

Ending: TypeAlias = Literal["ended", "handed over", "lost"]
"""How an owner's time with a monitor is over."""


class Phase(IntEnum):
    """How far a monitor is."""

    NEW, TAKEN, READY, FINISHED = range(4)


class Owner(Broadcast):
    """This process as the owner of a monitor. `place` is where the monitor is."""

    def __init__(self, place: Place, outlets: Outlets) -> None:
        super().__init__()
        self.place, self.outlets = place, outlets
        self.phase = Phase.NEW
        self.ending: Ending | None = None
        self.returncode: int | None = None
        self.noted = 0
        self.has_ended = False
        self.root: Descriptor | None = None
        self._socket: Descriptor | None = None
        self._pid: int | None = None
        self._pidfd: Descriptor | None = None
        self._failure: BaseException | None = None
        self._left: list[str] = []
        self._was_stopped = self._is_removed = False
        self._unstarted = [True]
        self._unbegun = [True]  # the thread that takes it begins with a keeper, or decides for none
        self._connection: socket.socket | None = None
        self._words, self._sent = list[str](), 0
        start_over_in_children(self)

    # What callers want

    def take(self) -> None:
        """Orders a keeper, which takes the monitor's folder, unless there is one."""
        self._begin(self._order)

    def require_unstarted(self) -> None:
        """Raises `MonitorError` if the monitor was started before."""
        if not popped(self._unstarted):
            raise MonitorError(
                "a monitor is started once, by start() or by its block; create another one"
            )

    def attach(self) -> None:
        """Follows the keeper of a detached monitor."""
        self._unstarted.clear()
        self._begin(self.place.attach)

    def say(self, word: str) -> None:
        """Sends a word to the keeper, as soon as there is one; "detach" gives the monitor up."""
        if self.phase is not Phase.FINISHED:
            self._was_stopped |= word in ("stop", "kill")
            if word == "detach":
                self.ending = "handed over"
            self._words.append(word)
            if word in ("stop", "kill", "detach") and popped(self._unbegun):
                self._finish()  # there is nothing to end
            self._send_words()

    def expect_end(self) -> None:
        """The monitor is to end: if it does, it has not ended by itself."""
        self._was_stopped = True

    def connect(self, connection: socket.socket) -> None:
        """Connects to the API of this monitor, and to nothing else. Raises OSError."""
        found = self._socket
        if found is None:
            raise FileNotFoundError(f"no monitor listens on {self.place.socket_path}")
        connection.connect(f"/proc/self/fd/{found.number}")

    def opened_root(self) -> Descriptor:
        """The root of a jail. Raises `MonitorExited` if the monitor has ended."""
        root = self.root
        if root is None:
            raise self.exited()
        return root

    def opened_vsock(self, path: str) -> Descriptor:
        """The socket of the vsock device, which cannot be redirected."""
        try:
            return self.place.open_socket(path, self.root)
        except OSError as error:
            raise VmmConnectionError(f"the vsock device's socket {path}: {error}") from error

    def has(self, phase: Phase) -> Callable[[], bool]:
        """Whether the monitor has come to a phase, or never will: then it is finished."""
        return lambda: self.phase >= phase

    def require_unfinished(self) -> None:
        """Raises the error of a monitor that did not start, or was stopped.

        One that started, and has ended since, says so by its calls.
        """
        if self._failure is not None:
            raise self._failure
        if self.phase is Phase.FINISHED and (self._was_stopped or not self.has_ended):
            raise MonitorStartError("the monitor was stopped meanwhile")

    def require_removed(self) -> None:
        """Raises `MonitorError`, once, if something of the monitor could not be removed."""
        left, self._left = self._left, []
        if left:
            what = f"some of what the monitor had could not be removed: {'; '.join(left)}"
            raise MonitorError(what, returncode=self.returncode)

    # What is known

    @property
    def pid(self) -> int:
        """The number of the monitor's process. Raises `MonitorError` before its start."""
        if self._pid is None:
            raise MonitorError(NOT_STARTED)
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        pidfd = self._pidfd
        return pidfd is not None and not kernel.is_ready(pidfd.number)

    def is_over(self) -> bool:
        """Whether the process has ended, or this process has given it up."""
        return self.has_ended or self.phase is Phase.FINISHED

    def has_noted(self, before: int) -> bool:
        """Whether the keeper has noted since then what the monitor bound, or never will."""
        return self.noted > before or self.is_over()

    def has_ended_badly(self) -> bool:
        """Whether the monitor has ended by itself, and not because its guest shut down."""
        return not self._was_stopped and (bool(self.returncode) or self.ending == "lost")

    def exited(self) -> MonitorExited:
        """The error for a monitor that ended by itself; raises that of a forked process."""
        self.outlets.console.require_own()
        how = f"ended {kernel.exit_in_words(self.returncode)}"
        if self.returncode == 0:
            how += ", as when the guest halts or reboots: start a new monitor"
        if self.ending == "lost":
            how = "was lost: its keeper was killed"
        what = f"the monitor of {self.place.socket_path} {how}"
        return MonitorExited(what, returncode=self.returncode, log=self._last_words())

    def not_started(self, how: str) -> MonitorStartError:
        """The error for a monitor that listened, and then did not respond."""
        if self._was_stopped:
            how = "was stopped before its socket responded"
        elif self.has_ended:
            how = f"ended {kernel.exit_in_words(self.returncode)} before its socket responded"
        return self._start_error(f"the monitor {how}")

    def _start_error(self, what: str) -> MonitorStartError:
        return MonitorStartError(what, returncode=self.returncode, log=self._last_words())

    def _last_words(self) -> list[str]:
        own = self.place.settings.get("log_path")
        return self.outlets.last_words() or ([f"see {own}"] if own else [])

    def __repr__(self) -> str:
        if self._pid is None:
            return "not started"
        return (
            f"{self._pid} {'running' if self.is_running else self.ending or 'of another process'}"
        )

    # The thread that follows the keeper; whoever has a word for the keeper sends it

    def _begin(self, connect: Callable[[], socket.socket]) -> None:
        """Connects to a keeper, unless that was done, and follows it.

        A signal handler may raise at any step, and break a lock of `threading.Thread.start`.
        """
        if self._unbegun:
            try:
                start_new_thread(self._live, (connect,))
            except RuntimeError as error:
                what = f"no thread can be started: {kernel.PROCESS_LIMIT}"
                raise MonitorStartError(what) from error

    def _live(self, connect: Callable[[], socket.socket]) -> None:
        """Follows a keeper to its end, unless another thread does, or none is wanted any more."""
        if not popped(self._unbegun):
            return
        try:
            connection = self._connection = connect()
            while self._hear(connection):
                pass
            if self.ending is None and self._pidfd is not None:
                kernel.ready_of([self._pidfd.number], ORPHAN_SECONDS)
        except BaseException as error:
            self._fail(error)
        self._disconnect()
        self._finish()

    def _hear(self, connection: socket.socket) -> bool:
        """Waits for the next report of the keeper; false after the last one.

        Its end of the connection may remain open, in a process that was forked meanwhile.
        """
        self._send_words()
        self.outlets.read_until(connection.fileno())
        received = messages.receive(connection)
        if received is None:
            return False
        (event, *report), given = received
        self._note(event, given, *report)
        return event != "removed"

    def _send_words(self) -> None:
        """Sends the words in their order, and again those that another is sending in this moment.

        So no word comes before an earlier one, and none is lost with an interruption.
        """
        connection = self._connection
        with contextlib.suppress(OSError):
            while connection is not None and (sent := self._sent) < len(self._words):
                if self._words[sent] == "detach":
                    connection.shutdown(socket.SHUT_RDWR)
                messages.send(connection, self._words[sent])
                self._sent = sent + 1

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _order(self) -> socket.socket:
        order = self.place.order()
        return NURSERY.order("monitor", order.record.path, content=order)

    def _note(self, event: str, given: list[Descriptor], *report: str) -> None:
        """Notes what the keeper reports."""
        if event == "taken":
            self.root = given[0] if given else None
            self.phase = max(self.phase, Phase.TAKEN)
        elif event == "started":
            if self._pid is None:
                self.outlets.open(dict(zip(report[1:], given[1:], strict=True)))
            self._pid, self._pidfd = int(report[0]), given[0]
        elif event == "ready":
            self._socket, self.phase = given[0], Phase.READY
        elif event == "noted":
            self.noted += 1
        elif event == "ended":
            self.outlets.end()
            self.returncode, self.ending = int(report[0]) if report[0] else None, "ended"
            self.has_ended = self._pid is not None
        elif event == "removed":
            self._is_removed, self._left = True, [*report[1:]]
            self._note_failure(report[0])
        self.notify()

    def _note_failure(self, failure: str) -> None:
        if failure and self.phase is Phase.READY:
            self._left.append(failure)
        elif failure:
            self._failure = self._start_error(failure)

    def _fail(self, error: BaseException) -> None:
        """Notes why the keeper could not be followed: it hears nothing more, and undoes all."""
        self._failure = error.with_traceback(None)
        if isinstance(error, OSError) and not isinstance(error, MonitorError):
            # anew, without the frames, which hold descriptors
            self._failure = MonitorStartError(f"no keeper can be started: {kernel.reason(error)}")

    def _finish(self) -> None:
        """Closes everything: the keeper reports no more, or there never will be one."""
        if not self._is_removed and self.ending != "handed over" and self._failure is None:
            self._note_lost()
        self.outlets.end()
        self._close()
        self.notify()

    def _note_lost(self) -> None:
        """The keeper was killed, if there was one."""
        if self.phase is Phase.READY:
            self.ending, self.has_ended = self.ending or "lost", True
        elif not self._was_stopped:
            self._failure = MonitorStartError("the monitor's keeper was killed")

    def start_over(self) -> None:
        """In a forked process: a monitor that has a keeper belongs to the parent."""
        if not self._unbegun:
            self._disconnect()
            self.outlets.start_over()
            self._close()

    def _close(self) -> None:
        self.outlets.abandon()
        self._pidfd = self.root = self._socket = None
        self.phase = Phase.FINISHED
