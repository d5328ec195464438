"""What the operations of all machines of a folder share: who controls it, and what is busy."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from generated_vmm.concurrency._async import finished, sleep
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.errors import MachineBusy, MachineError
from generated_vmm.machines.options import Options
from generated_vmm.machines.records import Operation, Report
from generated_vmm.machines.store import Store
from generated_vmm.process import MonitorError
from generated_vmm.transport.connection import start_over_in_children

logger = logging.getLogger(__name__)
LOOKS, LOOK_SECONDS = 100, 0.02
"""How often and after which pause an operation tries to begin while `reconcile` looks."""
LONGEST_UNRECONCILED = 30.0
"""Seconds after which `reconcile` seems to be called no more; a restart would be as late."""
FORKED = "the process that it was forked from does: make `AsyncMachines` after the fork"


class AsyncControl:
    """The machines of a store, its lock, and what `reconcile` will report."""

    def __init__(self, store: Store, options: Options) -> None:
        self.store, self.options = store, options
        self._held: dict[str, AsyncHeld] = {}
        self._reports: list[Report] = []
        self._lock: int | None = None
        self._is_closed = self._is_forked = self._is_advised = False
        self.reconciled_at = -math.inf
        """When `reconcile` was called last; infinite while it runs."""
        self._turn = threading.RLock()  # so that nothing begins after the last end
        start_over_in_children(self)

    def of(self, machine: str) -> AsyncHeld:
        """A machine as this process has it, whether or not it exists."""
        return self._held.setdefault(machine, AsyncHeld(machine, self.store, self.options))

    def open(self) -> None:
        """Lets operations begin again after `close`."""
        with self._turn:
            self._is_closed = self._is_forked = False

    def take(self) -> None:
        """Takes control of the machines.

        Raises `MachineError` after `close`, and if another process has control.
        """
        with self._turn:
            if self._is_closed:
                machines = f"the machines of {self.store.folder}"
                forked = f"this process does not control {machines}: {FORKED}"
                raise MachineError(forked if self._is_forked else f"{machines} are closed")
            if self._lock is None:
                self._lock = self.store.take_control()

    def require_taken(self, name: str) -> None:
        """Raises `MachineError` unless this process has control of a machine, and keeps it."""
        if self._lock is None or self._is_closed:
            how = FORKED if self._is_forked else "call `reconcile` first, and nothing after `close`"
            raise MachineError(f"this process does not control {name}: {how}")

    def start_over(self) -> None:
        """In a forked process: the parent has control, and its end is the end of the lock."""
        self._turn, self._is_closed, self._is_forked = threading.RLock(), True, True
        for held in self._held.values():
            held.busy = None
        self._unlock()

    async def close(self) -> None:
        """Lets nothing begin any more, and gives up each machine once its operation has ended.

        The lock is the last. Raises `MonitorError` for a monitor that does not end.
        """
        await finished(self._close)

    async def _close(self) -> None:
        failure: MonitorError | None = None
        with self._turn:
            self._is_closed = True
        for held in list(self._held.values()):
            look = object()
            try:
                if self._is_free(held, look):
                    await held.let_go()
            except MonitorError as error:
                failure = error
            finally:
                self._free(held, look)
        with self._turn:
            if not any(held.busy for held in self._held.values()):
                self._unlock()
        if failure is not None:
            raise failure

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _is_free(self, held: AsyncHeld, look: object) -> bool:
        with self._turn:
            held.busy = held.busy or look
        return held.busy is look

    def _free(self, held: AsyncHeld, what: object) -> None:
        if held.busy is what:
            held.busy = None

    async def occupy(self, held: AsyncHeld, operation: Operation) -> None:
        """Lets nothing else begin with a machine. Raises `MachineBusy` while an operation runs."""
        for _ in range(LOOKS):
            with self._turn:
                self.take()
                if held.busy is None:
                    held.busy = operation
                    return
                if isinstance(held.busy, Operation):
                    break
            await sleep(LOOK_SECONDS)
        found = self.store.machines.get(held.id)
        raise MachineBusy(operation.name, found.operation if found is not None else None)

    def watch(self, held: AsyncHeld, look: object) -> bool:
        """Lets no operation begin for a moment; false if one runs, and after `close`."""
        with self._turn:
            return not self._is_closed and self._is_free(held, look)

    async def look(self, held: AsyncHeld) -> None:
        """Attaches to the monitor that an earlier process has left, unless an operation does so."""
        look = object()
        async with self.leaving(held, look):
            if self.watch(held, look):
                await held.look()

    @asynccontextmanager
    async def leaving(self, held: AsyncHeld, what: object) -> AsyncIterator[None]:
        """A block that may begin `what` with a machine; something else may begin after it."""
        try:
            yield
        finally:
            try:
                is_left = self._leave(held, what)
            finally:  # that may be interrupted too
                self._free(held, what)
            if is_left and self._is_closed:
                await self.close()

    def _leave(self, held: AsyncHeld, what: object) -> bool:
        with self._turn:
            is_left = held.busy is what
            self._free(held, what)
            is_idle = held.busy is None and held.monitor is None
            if is_idle and self.store.machines.readable(held.id) is None:
                self._held.pop(held.id, None)  # it is deleted
        return is_left

    def advise(self, held: AsyncHeld, *, starts: bool = False) -> None:
        """Logs once that nobody reconciles a machine that starts, or that this process has."""
        passed = monotonic() - self.reconciled_at
        is_first, has_one = passed == math.inf, held.monitor is not None
        is_due = passed >= LONGEST_UNRECONCILED and (starts or (has_one and not is_first))
        if not is_due or self._is_advised:
            return
        if (record := self.store.machines.readable(held.id)) is None:
            return
        if record.definition.restart != "never" or (record.definition.autostart and is_first):
            self._is_advised = True
            logger.warning("autostart and restart need reconcile(): at first, then every second")

    def tell(self, report: Report) -> None:
        """Keeps a report for the next `reconcile`."""
        self._reports.append(report)

    def told(self) -> list[Report]:
        """The reports since the last call, which is one of `reconcile`."""
        self.reconciled_at = monotonic()
        return [self._reports.pop(0) for _ in range(len(self._reports))]
