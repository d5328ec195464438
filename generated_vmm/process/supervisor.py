"""A thread that carries out the wishes of callers for a monitor.

No signal handler and no cancelled task interrupts it. Callers submit a wish and wait for it; they
may be threads, tasks and signal handlers at the same time.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

from generated_vmm.process.broadcast import Broadcast
from generated_vmm.process.child import Descriptor
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.removal import PAUSE
from generated_vmm.transport.connection import popped, start_over_in_children


class Phase(IntEnum):
    """The phase of a run."""

    NEW, CLAIMED, RUNNING, FINISHED = range(4)


class Goal(IntEnum):
    """The goals of a run, the strongest last; the first have the numbers of their phases."""

    NOTHING, CLAIM, RUN, LET_GO, STOP, KILL = range(6)


@dataclass(frozen=True)
class Wish:
    """A caller's wish for a run."""

    run: Supervisor
    goal: Goal
    failures: int

    def is_done(self) -> bool:
        """Whether the run has fulfilled it, or failed."""
        done = self.run.phase >= min(self.goal, Phase.FINISHED) or self.run.is_foreign
        return done or self.run.failures > self.failures

    def require_success(self) -> None:
        """Raises the error, if it failed."""
        is_over = self.run.phase is Phase.FINISHED
        if self.run.failures > self.failures and not (is_over and self.goal >= Goal.LET_GO):
            raise cast(BaseException, self.run.failure)
        if is_over and self.goal < Goal.LET_GO:
            raise MonitorStartError("the monitor was stopped meanwhile")


class Supervisor(Broadcast):
    """Brings a run from one phase to the next, as far as callers want."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = Phase.NEW
        self.failure: BaseException | None = None
        self.failures = 0
        self._wishes: list[tuple[Goal, float]] = []
        self._turn = [True]  # a thread that takes it begins the work, or decides that there is none
        self._owner: int | None = None
        self._wake: Descriptor | None = None

    @abstractmethod
    def _claim(self) -> None:
        """Creates what a start needs."""

    @abstractmethod
    def _start(self) -> None:
        """Starts the monitor."""

    @abstractmethod
    def _finish(self, goal: Goal) -> bool:
        """Ends the monitor or gives it up; false if nothing is left to do."""

    @abstractmethod
    def _undo(self, error: BaseException) -> bool:
        """Removes what a failed start has created; false as with `_finish`."""

    @abstractmethod
    def _read(self, seconds: float | None) -> None:
        """Waits until something has happened, or a caller has a wish."""

    @abstractmethod
    def _hurry(self) -> None:
        """Ends the thread's current wait."""

    @property
    def is_foreign(self) -> bool:
        """Whether the run belongs to the process that this one was forked from."""
        return self._owner not in (None, os.getpid())

    @property
    def _goal(self) -> Goal:
        return max((goal for goal, _ in tuple(self._wishes)), default=Goal.NOTHING)

    @property
    def _grace(self) -> float:
        """The shortest grace period that callers passed."""
        return min(grace for goal, grace in tuple(self._wishes) if goal is Goal.STOP)

    def want(self, goal: Goal, grace: float = 0.0) -> Wish:
        """Submits a wish, and returns it to be waited for."""
        wish = Wish(self, goal, self.failures)
        if not wish.is_done():
            self._wishes.append((goal, grace))
            if goal is Goal.KILL:
                self._hurry()
            self._stir()
        return wish

    def _stir(self) -> None:
        """Wakes the thread, or starts it if there is work. Holds no lock meanwhile."""
        wake = self._wake
        if wake is not None:
            os.eventfd_write(wake.number, 1)
        elif self.phase is Phase.NEW and self._goal >= Goal.LET_GO:
            if popped(self._turn):
                self._reach(Phase.FINISHED)  # there is nothing to end
        elif self._turn:
            threading.Thread(target=self._live, name="monitor", daemon=True).start()

    @abstractmethod
    def start_over(self) -> None:
        """Drops the run in a forked process: it belongs to the parent."""

    def _live(self) -> None:
        if popped(self._turn):
            self._owner = os.getpid()
            start_over_in_children(self)
            while self._take_turn():
                pass

    def _take_turn(self) -> bool:
        """Fulfils wishes, or waits for one; false if there will be no more."""
        goal = self._goal
        try:
            if self._wake is None:
                self._wake = Descriptor(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
            goal = self._goal  # not before: later wishes wake the thread
            if goal >= Goal.LET_GO:
                return self._finish(goal)
            if self.phase is Phase.NEW and goal >= Goal.CLAIM:
                self._claim()
            elif self.phase is Phase.CLAIMED and goal is Goal.RUN:
                self._start()
            else:
                self._read(None)
        except BaseException as error:
            if self._wake is None:
                time.sleep(PAUSE)  # there may be a descriptor then
            is_start = self.phase < Phase.RUNNING and goal < Goal.LET_GO
            return self._undo(error) if is_start else self._fail(error)
        return True

    def _reach(self, phase: Phase) -> None:
        self.phase = phase
        self.notify()

    def _fail(self, error: BaseException) -> bool:
        """Drops the wishes, so that callers can repeat them."""
        self._wishes.clear()
        self.failure, self.failures = error, self.failures + 1
        self.notify()
        return True
