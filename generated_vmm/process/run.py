"""One run of a monitor: how it begins and how it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from functools import partial

from generated_vmm.errors import VmmError
from generated_vmm.facade import VmmClient
from generated_vmm.process.child import Child, Gate
from generated_vmm.process.errors import (
    MonitorError,
    MonitorStartError,
    exit_in_words,
)
from generated_vmm.process.outlets import Outlets
from generated_vmm.process.reaper_client import REAPER
from generated_vmm.process.supervisor import Goal, Phase
from generated_vmm.process.things import remove_all
from generated_vmm.process.watched import Watched
from generated_vmm.process.workspace import Workspace
from generated_vmm.transport import UnixChannel

ASKING_SECONDS = 1.0  # limits calls to a monitor that is to end and may hang
TERMINATING_SECONDS = 2.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two attempts


class Run(Watched):
    """How a monitor begins and ends. All methods but `take_up` run in the run's thread."""

    def __init__(self, workspace: Workspace, outlets: Outlets) -> None:
        super().__init__(workspace, outlets)
        self._key = secrets.token_hex(8)
        self._is_entrusted = False  # whether the reaper removes what a killed process leaves

    def _hurry(self) -> None:
        if self._is_entrusted:  # else the files of a killed monitor could remain
            self.child.send_signal(signal.SIGKILL)

    def _undo(self, error: BaseException) -> bool:
        """Removes what a failed start has created; a claim may be tried again."""
        try:
            self._remove()
        except Exception:  # the reaper knows of it
            return self._fail(self._explained(error))
        is_claim = self._goal is Goal.CLAIM
        return self._let_go(Phase.NEW if is_claim else Phase.FINISHED, self._explained(error))

    def _claim(self) -> None:
        LET_GO[:] = [each for each in LET_GO if not each.forget_if_ended()]
        self.workspace.take(partial(REAPER.entrust, self._key), self._require_wanted)
        self._reach(Phase.CLAIMED)

    def _start(self) -> None:
        self.workspace.prepare()
        argv = self.workspace.argv()
        self.outlets.open(self.workspace)
        self._begin(argv)
        self._wait_until_ready()
        if self.workspace.settings.detached:
            self._settle()
        self._reach(Phase.RUNNING)

    def _begin(self, argv: list[str]) -> None:
        """Starts the process, and records it before it becomes the program."""
        settings = self.workspace.settings
        env = os.environ if settings.env is None else settings.env
        with contextlib.ExitStack() as stack:
            given = []
            for descriptor in self.workspace.opened_for_process():
                given.append(descriptor)
                stack.callback(os.close, descriptor)
            gate = Gate(argv, env, os.path.abspath(settings.cwd or "."), given)
            stack.callback(gate.close)
            self._child = gate.child
            self.workspace.own_process(gate.child)
            self._is_entrusted = True
            gate.open()
        self._follow(self.workspace.monitor_of(gate.child))

    def _follow(self, monitor: Child) -> None:
        """Continues with the process that the jailer has forked."""
        started, self._child = self.child, monitor
        if monitor is not started:
            try:
                self.workspace.own_process(monitor)
            finally:
                started.collect()
                started.close()

    def _wait_until_ready(self) -> None:
        """Waits until the socket responds. `MonitorStartError` if it never will, or too late."""
        timeout = self.workspace.settings.timeout
        deadline, pause, last = time.monotonic() + timeout, SHORTEST_PAUSE, ""
        with self._asking(timeout) as client:
            while True:
                self._require_starting(deadline, last)
                try:
                    client.get_instance_info()
                    return
                except VmmError as error:
                    last = str(error)  # not the error: its frames would keep objects alive
                self._read(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _asking(self, timeout: float) -> VmmClient:
        path, connect = self.workspace.socket_path, self.workspace.connect
        return VmmClient(path, timeout=timeout, transport=UnixChannel(path, connect=connect))

    def _require_wanted(self) -> None:
        if self._goal >= Goal.LET_GO:
            raise MonitorStartError("the monitor was stopped before its socket responded")

    def _require_starting(self, deadline: float, last: str) -> None:
        self._require_wanted()
        if not self.is_running:
            self._note_end()
            how = exit_in_words(self.returncode)
            raise MonitorStartError(f"the monitor ended {how} before its socket responded")
        if time.monotonic() > deadline:
            limit = f"within {self.workspace.settings.timeout} s"
            raise MonitorStartError(f"the monitor's socket did not respond {limit}: {last}")

    def _settle(self) -> None:
        """Records that the monitor survives this process, and takes it back from the reaper."""
        self.workspace.record(is_detached=True)
        self.workspace.tell = lambda _: None
        self._is_entrusted = False
        REAPER.release(self._key)

    def take_up(self, child: Child) -> None:
        """Takes over a detached process that another one started, whose folder is held.

        Outlets that its user has removed or replaced stay empty.
        """
        self._child, self._owner = child, os.getpid()
        self.outlets.open(self.workspace, are_all_there=False)
        self.phase = Phase.RUNNING
        self._stir()

    def _finish(self, goal: Goal) -> bool:
        if goal is Goal.LET_GO and not self.has_ended:
            self.workspace.disown()
            LET_GO.append(self.child)
            return self._let_go(Phase.FINISHED)
        if self.phase is Phase.RUNNING:
            with contextlib.suppress(MonitorError, OSError):  # the monitor continues all the same
                REAPER.entrust(self._key, self.workspace.ward)
                self._is_entrusted = True
            if goal is Goal.STOP and not self.has_ended:
                self._ask_to_end()
        self._remove()
        return self._let_go(Phase.FINISHED)

    def _ask_to_end(self) -> None:
        """A running guest gets Ctrl+Alt+Del and its grace period, then the process gets SIGTERM."""

        def is_over() -> bool:
            return self.has_ended or self._goal is Goal.KILL

        with contextlib.suppress(VmmError), self._asking(ASKING_SECONDS) as client:
            if self._grace and client.get_instance_info().state == "Running":
                client.action("SendCtrlAltDel")
                self._read_until(is_over, self._grace)
        if not is_over() and not self.workspace.ignores_sigterm:
            self.child.send_signal(signal.SIGTERM)
            self._read_until(is_over, TERMINATING_SECONDS)

    def _remove(self) -> None:
        """Ends the processes and removes the files. Raises `MonitorError` if that fails."""
        try:
            if self._child is not None and not self.has_ended and not self.is_running:
                self._note_end()  # the session's number may be another's later
            remove_all(self.workspace.ward)
        except TimeoutError as error:
            raise MonitorError(f"process {self.child.pid} was killed and does not end") from error
        except OSError as error:
            raise MonitorError(f"some files could not be removed: {error}") from error
        if self._child is not None and not self.has_ended:
            self._note_end()

    def _let_go(self, phase: Phase, failure: BaseException | None = None) -> bool:
        """Closes all descriptors; returns false, because nothing is left to do."""
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
            self._turn.append(True)  # it may be tried again
        self.notify()
        return False


LET_GO: list[Child] = []
"""Detached processes that this one gave up while they ran: zombies once they have ended."""
