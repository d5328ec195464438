"""One run of a monitor: how it begins, what is read of it meanwhile, and how it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

from generated_vmm.errors import VmmError
from generated_vmm.facade import VmmClient
from generated_vmm.process.child import Child, Descriptor, Gate
from generated_vmm.process.errors import (
    MonitorError,
    MonitorExited,
    MonitorStartError,
    exit_in_words,
)
from generated_vmm.process.outlets import Outlets
from generated_vmm.process.reaper_client import REAPER
from generated_vmm.process.supervisor import Goal, Phase, Supervisor
from generated_vmm.process.things import Session, Thing, remove_all
from generated_vmm.process.workspace import BOTH_ENDS, CONSOLE_INPUT, CONSOLE_OUTPUT, LOG, Workspace
from generated_vmm.transport import UnixChannel

ASKING_SECONDS = 1.0  # for the questions to a monitor that is to end, which may hang
TERMINATING_SECONDS = 2.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two looks for an answer


class Run(Supervisor):
    """A monitor's process, its outlets and what it owns."""

    def __init__(self, workspace: Workspace, outlets: Outlets) -> None:
        super().__init__()
        self.workspace = workspace
        self.outlets = outlets
        self.vsock_path: str | None = None
        self.has_ended = False
        self._child: Child | None = None
        self._key = secrets.token_hex(8)
        self._to_own: deque[Thing] = deque()
        self._is_entrusted = False  # whether the reaper removes what a killed process leaves

    # What anybody may call

    @property
    def child(self) -> Child:
        """The process. `MonitorError` before its start."""
        if self._child is None:
            raise MonitorError("the monitor has not been started")
        return self._child

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs or when it is not known."""
        return None if self._child is None else self._child.returncode

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._child is not None and self._child.running

    def is_over(self) -> bool:
        """Whether the process has ended, or nothing here looks after it any more."""
        return self.has_ended or self.phase is Phase.FINISHED

    def require_fresh(self) -> None:
        """`MonitorError` when the monitor was started before."""
        if self._goal >= Goal.RUN or self.phase >= Phase.RUNNING:
            raise MonitorError("a monitor is started once; make another one")

    def own(self, thing: Thing) -> Callable[[], bool]:
        """Adds to what goes with the monitor; the result says whether that is done."""
        self._to_own.append(thing)
        self._stir()
        return lambda: self.is_over() or self.is_foreign or thing not in self._to_own

    def abandon(self) -> None:
        """Lets go in a forked process, of the folder's lock too."""
        self.workspace.abandon()

    # What happens in the thread

    def _hurry(self) -> None:
        if self._is_entrusted:  # else a monitor could be killed whose files nobody removes
            self.child.send_signal(signal.SIGKILL)

    def _undo(self, error: BaseException) -> bool:
        """Removes what a start has made until it failed; a claim may be tried again."""
        try:
            self._remove()
        except Exception:  # the reaper knows of it
            return self._fail(self._explained(error))
        is_claim = self._goal is Goal.CLAIM
        return self._let_go(Phase.NEW if is_claim else Phase.FINISHED, self._explained(error))

    def _claim(self) -> None:
        LET_GO[:] = [each for each in LET_GO if not each.forget_if_ended()]
        self.workspace.take(partial(REAPER.entrust, self._key))
        self._reach(Phase.CLAIMED)

    def _start(self) -> None:
        settings = self.workspace.settings
        self.workspace.prepare()
        argv = self.workspace.argv()
        self.outlets.open(self.workspace)
        env = os.environ if settings.env is None else settings.env
        with contextlib.ExitStack() as stack:
            given = []
            for opening, name, flags in (
                (self.workspace.open, CONSOLE_INPUT, os.O_RDWR),
                (self.workspace.open, CONSOLE_OUTPUT, BOTH_ENDS),
                (self.workspace.outlet, LOG, BOTH_ENDS),
            ):
                given.append(opening(name, flags))
                stack.callback(os.close, given[-1])
            gate = Gate(argv, env, os.path.abspath(settings.cwd or "."), given)
            stack.callback(gate.close)
            self._child = gate.child
            self.workspace.own_process(gate.child)
            self._is_entrusted = True
            gate.open()
        self._follow(self.workspace.monitor_of(gate.child))
        self._wait_until_ready()
        if settings.detached:
            self._settle()
        self._reach(Phase.RUNNING)

    def _follow(self, monitor: Child) -> None:
        """Goes on with the process that the jailer has forked."""
        started, self._child = self.child, monitor
        if monitor is not started:
            started.close()
            self.workspace.note_process(monitor)

    def _wait_until_ready(self) -> None:
        """The socket answers. `MonitorStartError` when it never will, or not in time."""
        timeout = self.workspace.settings.timeout
        deadline, pause, last = time.monotonic() + timeout, SHORTEST_PAUSE, ""
        with self._asking(timeout) as client:
            while True:
                self._require_starting(deadline, last)
                try:
                    client.get_instance_info()
                    return
                except VmmError as error:
                    last = str(error)  # not the error: it would keep what its frames refer to
                self._read(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _asking(self, timeout: float) -> VmmClient:
        path, connect = self.workspace.socket_path, self.workspace.connect
        return VmmClient(path, timeout=timeout, transport=UnixChannel(path, connect=connect))

    def _require_starting(self, deadline: float, last: str) -> None:
        if self._goal >= Goal.LET_GO:
            raise MonitorStartError("the monitor was stopped before its socket answered")
        if not self.is_running:
            self._note_end()
            how = exit_in_words(self.returncode)
            raise MonitorStartError(f"the monitor ended {how} before its socket answered")
        if time.monotonic() > deadline:
            limit = f"within {self.workspace.settings.timeout} s"
            raise MonitorStartError(f"the monitor's socket did not answer {limit}: {last}")

    def _settle(self) -> None:
        """Writes down that the monitor survives this process, and lets the reaper forget it."""
        self.workspace.note_process(self.child, is_detached=True)
        self.workspace.tell = lambda _: None
        self._is_entrusted = False
        REAPER.release(self._key)

    def take_up(self, child: Child) -> None:
        """Goes on with a detached process that another one started, whose folder is held.

        `MonitorError` when its fifos are gone.
        """
        self._child, self._owner = child, os.getpid()
        try:
            self.outlets.open(self.workspace)
        except OSError as error:
            self._let_go(Phase.FINISHED)
            raise MonitorError(f"the monitor's outlets cannot be opened: {error}") from error
        self.phase = Phase.RUNNING
        self._stir()

    def _read(self, seconds: float | None) -> None:
        """Empties the outlets until the process has ended, something is wanted, or that long."""
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
            with contextlib.suppress(OSError):  # the reaper knows although it is not written down
                self.workspace.own(self._to_own[0])
            self._to_own.popleft()
            self.notify()

    def _note_end(self) -> None:
        """Ends what is left of the session, and collects the exit status."""
        for thing, _ in self.workspace.ward:
            if isinstance(thing, Session):
                thing.remove()
        self.child.collect()
        self.outlets.end()
        self.has_ended = True
        self.notify()

    def _finish(self, goal: Goal) -> bool:
        if goal is Goal.LET_GO and not self.has_ended:
            self.workspace.disown()
            LET_GO.append(self.child)
            return self._let_go(Phase.FINISHED)
        if self.phase is Phase.RUNNING:
            with contextlib.suppress(MonitorError, OSError):  # it goes on all the same
                REAPER.entrust(self._key, self.workspace.ward)
                self._is_entrusted = True
            if goal is Goal.STOP and not self.has_ended:
                self._ask_to_end()
        self._remove()
        return self._let_go(Phase.FINISHED)

    def _ask_to_end(self) -> None:
        """A guest that runs gets Ctrl+Alt+Del and its grace, then the process gets SIGTERM."""

        def is_over() -> bool:
            return self.has_ended or self._goal is Goal.KILL

        with contextlib.suppress(VmmError), self._asking(ASKING_SECONDS) as client:
            if self._grace and client.get_instance_info().state == "Running":
                client.action("SendCtrlAltDel")
                self._read_until(is_over, self._grace)
        if not is_over():
            self.child.send_signal(signal.SIGTERM)
            self._read_until(is_over, TERMINATING_SECONDS)

    def _remove(self) -> None:
        """Ends the processes and removes the files. `MonitorError` when that cannot be done now."""
        try:
            remove_all(self.workspace.ward)
        except TimeoutError as error:
            raise MonitorError(f"process {self.child.pid} was killed and does not end") from error
        except OSError as error:
            raise MonitorError(f"not everything could be removed: {error}") from error
        if self._child is not None and not self.has_ended:
            self._note_end()

    def _let_go(self, phase: Phase, failure: BaseException | None = None) -> bool:
        """Closes everything; false, because there is nothing more to do."""
        self.outlets.end()
        REAPER.release(self._key)
        self.workspace.close()
        if self._child is not None and self._child not in LET_GO:
            self._child.close()
        self._wake = None
        self.phase = phase
        if failure is not None:
            self._fail(failure)
        if phase is Phase.NEW:
            self._turn.append(None)  # it may be tried again
        self.notify()
        return False

    # What is said of it

    def _explained(self, error: BaseException) -> BaseException:
        """What a start has failed with, once the monitor has ended."""
        is_of_the_system = isinstance(error, OSError) and not isinstance(error, VmmError)
        if not isinstance(error, MonitorError) and not is_of_the_system:
            return error
        found = MonitorStartError(str(error), returncode=self.returncode, log=self._last_words())
        found.__cause__ = error if is_of_the_system else error.__cause__
        return found

    def has_ended_badly(self) -> bool:
        """Whether the monitor has ended by itself, other than because its guest was done."""
        return not self.is_foreign and self.phase is Phase.RUNNING and bool(self.returncode)

    def tell_exit(self, error: BaseException | None) -> None:
        """Raises `MonitorExited`, or adds it to the error that is on its way."""
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
        """The error that says how the monitor ended by itself."""
        code = self.returncode
        what = f"the monitor of {self.workspace.socket_path} ended {exit_in_words(code)}"
        return MonitorExited(what, returncode=code, log=self._last_words())

    def _last_words(self) -> list[str]:
        return self.outlets.last_words(self.workspace.log_file())


LET_GO: list[Child] = []
