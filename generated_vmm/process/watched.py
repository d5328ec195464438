"""A monitor's process: its outputs, and how it ended."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

from generated_vmm._generated.models import SnapshotLoadParams, Vsock
from generated_vmm.errors import VmmConnectionError, VmmError
from generated_vmm.operation import Operation
from generated_vmm.process.child import Child, Descriptor
from generated_vmm.process.errors import (
    MonitorError,
    MonitorExited,
    MonitorStartError,
    exit_in_words,
)
from generated_vmm.process.outlets import Outlets
from generated_vmm.process.supervisor import Goal, Phase, Supervisor
from generated_vmm.process.things import Thing
from generated_vmm.process.workspace import Workspace


class Watched(Supervisor):
    """A monitor's process and its outlets, which one thread reads until the end."""

    def __init__(self, workspace: Workspace, outlets: Outlets) -> None:
        super().__init__()
        self.workspace = workspace
        self.outlets = outlets
        self.vsock_path: str | None = None
        self.has_ended = False
        self._child: Child | None = None
        self._to_own: deque[Thing] = deque()

    @property
    def child(self) -> Child:
        """The process. Raises `MonitorError` before its start."""
        if self._child is None:
            raise MonitorError("the monitor has not been started")
        return self._child

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs or if it is not known."""
        return None if self._child is None else self._child.returncode

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._child is not None and self._child.running

    def is_over(self) -> bool:
        """Whether the process has ended, or this process has given it up."""
        return self.has_ended or self.phase is Phase.FINISHED

    def require_fresh(self) -> None:
        """Raises `MonitorError` if the monitor was started before."""
        if self._goal >= Goal.RUN or self.phase >= Phase.RUNNING:
            raise MonitorError("a monitor is started once; create another one")

    def own(self, thing: Thing) -> Callable[[], bool]:
        """Adds a thing that ends with the monitor; the result says whether that is done."""
        self._to_own.append(thing)
        self._stir()
        return lambda: self.is_over() or self.is_foreign or thing not in self._to_own

    def own_vsock(self, operation: Operation[object]) -> Callable[[], bool] | None:
        """Removes the socket that a call creates when the monitor ends, even if the call fails.

        The result says whether that is prepared, and the call can be sent; None if it can be
        immediately.
        """
        path = _vsock_path_in(operation)
        if path is None:
            return None
        self.vsock_path = path
        thing = self.workspace.vsock_made_at(path)
        return None if thing is None else self.own(thing)

    @contextlib.contextmanager
    def opened_vsock(self, path: str) -> Iterator[str]:
        """A path of the vsock device's socket that cannot be redirected."""
        try:
            found = self.workspace.open_socket(path)
        except OSError as error:
            raise VmmConnectionError(f"the vsock device's socket {path}: {error}") from error
        try:
            yield f"/proc/self/fd/{found}"
        finally:
            os.close(found)

    def start_over(self) -> None:
        """Drops the monitor in a forked process, with the folder's lock."""
        self.workspace.abandon()

    # In the run's thread

    def _read(self, seconds: float | None) -> None:
        """Empties the outlets until the process ends, a caller has a wish, or the time is up."""
        self._own_more()
        wake = cast(Descriptor, self._wake).number
        runs = self._child is not None and not self.has_ended
        self.outlets.read_until([wake, *([self.child.pidfd] if runs else [])], seconds)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(wake)
        if runs and not self.is_running:
            self._note_end()

    def _read_until(self, is_true: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_true() and (left := deadline - time.monotonic()) > 0:
            self._read(left)

    def _own_more(self) -> None:
        while self._to_own:
            with contextlib.suppress(OSError):  # the reaper knows it although it is not recorded
                self.workspace.own(self._to_own[0])
            self._to_own.popleft()
            self.notify()

    def _note_end(self) -> None:
        """Ends what is left of the session, and collects the exit status.

        The session's number is another's to use after that, so the session is forgotten before.
        """
        self.workspace.end_processes()
        self.child.collect()
        self.outlets.end()
        self.has_ended = True
        self.notify()

    # Descriptions and errors

    def _explained(self, error: BaseException) -> BaseException:
        """The error of a failed start, once the monitor has ended."""
        is_of_the_system = isinstance(error, OSError) and not isinstance(error, VmmError)
        if not isinstance(error, MonitorError) and not is_of_the_system:
            return error
        found = MonitorStartError(str(error), returncode=self.returncode, log=self._last_words())
        found.__cause__ = error if is_of_the_system else error.__cause__
        return found

    def has_ended_badly(self) -> bool:
        """Whether the monitor has ended by itself, and not because its guest shut down."""
        return not self.is_foreign and self.phase is Phase.RUNNING and bool(self.returncode)

    def tell_exit(self, error: BaseException | None) -> None:
        """Raises `MonitorExited`, or adds it to the current error."""
        if error is None:
            raise self.exited()
        if not isinstance(error, MonitorExited):
            error.add_note(str(self.exited()))

    def __repr__(self) -> str:
        if self._child is None:
            return "not started"
        ended = exit_in_words(self.returncode)
        return f"{self._child.pid} {'running' if self.is_running else f'ended {ended}'}"

    def exited(self) -> MonitorExited:
        """The error for a monitor that ended by itself."""
        code = self.returncode
        what = f"the monitor of {self.workspace.socket_path} ended {exit_in_words(code)}"
        return MonitorExited(what, returncode=code, log=self._last_words())

    def _last_words(self) -> list[str]:
        return self.outlets.last_words(self.workspace.log_file())


def _vsock_path_in(operation: Operation[object]) -> str | None:
    """The path of the vsock device's socket that a call creates, as the monitor sees it."""
    body = operation.body or b""
    with contextlib.suppress(ValueError):  # it is no model: the monitor will refuse it
        if operation.path == "/vsock":
            return Vsock.from_answer(body).uds_path
        if operation.path == "/snapshot/load":
            override = SnapshotLoadParams.from_answer(body).vsock_override
            return None if override is None else override.uds_path
    return None
