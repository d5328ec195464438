"""A machine as this process has it: its record, and its monitor, which is started and ended."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generated_vmm import AsyncVmmClient
from generated_vmm.concurrency._async import in_thread
from generated_vmm.errors import VmmTimeoutError
from generated_vmm.guest import AsyncGuest
from generated_vmm.machines.definition import files_of
from generated_vmm.machines.errors import MachineError, unknown
from generated_vmm.machines.options import Options
from generated_vmm.machines.records import End, MachineRecord, boot_id
from generated_vmm.machines.restart import after_end
from generated_vmm.machines.store import Store
from generated_vmm.process import AsyncJailedMonitor, AsyncMonitor, MonitorError, MonitorExited
from generated_vmm.process.keeper.record import RECORD

if TYPE_CHECKING:
    from generated_vmm.process.network import Tap

MOMENT_SECONDS = 0.25
LAST_LINES = 5
"""The lines of a monitor's log that are stored with its end."""


class AsyncHeld:
    """A machine of the store, with the monitor and the tap devices that this process has of it.

    `busy` is what is done with it.
    """

    def __init__(self, machine: str, store: Store, options: Options) -> None:
        self.id, self.store, self.options = machine, store, options
        self.busy: object = None
        self.monitor: AsyncMonitor | None = None
        self._taps: list[Tap] = []

    @property
    def folder(self) -> Path:
        """The machine's own folder."""
        return self.store.machines.path(self.id)

    @property
    def record(self) -> MachineRecord:
        """The machine as it is stored. Raises `MachineError` if it does not exist."""
        record = self.store.machines.get(self.id)
        if record is None:
            raise unknown(self.id)
        return record

    async def change(self, **members: object) -> MachineRecord:
        """Stores the machine with other members, and returns it."""
        if members.get("started_at") is not None:
            members["boot"] = boot_id()
        changed = self.record.model_copy(update=members)
        await in_thread(self.store.machines.put, self.id, changed)
        return changed

    @property
    def is_up(self) -> bool:
        """Whether its monitor runs, as far as this process knows."""
        return self.monitor is not None and self.monitor.running

    @property
    def client(self) -> AsyncVmmClient:
        """The client of its monitor. Raises `MachineError` if it does not run."""
        if self.monitor is None or not self.is_up:
            is_unseen = self.monitor is None and self.record.started_at is not None
            hint = ", or `reconcile` must find its monitor" if is_unseen else ": start() starts it"
            raise MachineError(f"{self.record.name} does not run{hint}")
        return self.monitor.client

    def guest(self) -> AsyncGuest:
        """Its guest. Raises `MachineError` if it does not run, or has no agent."""
        _, port = self.client, self.record.definition.agent
        if port is None or self.monitor is None:
            raise MachineError(f"{self.record.name} has no agent")
        return AsyncGuest(self.monitor, port=port, timeout=self.options.timeout)

    async def has_ended(self) -> bool:
        """Whether a monitor that did not respond has ended, or ends within a moment."""
        with suppress(VmmTimeoutError):
            if self.monitor is not None:
                await self.monitor.wait(MOMENT_SECONDS)
            return True
        return False

    def folders(self) -> list[Path]:
        """The folders of its monitors: one, if any. A jail's is named by its program.

        Raises OSError: a folder that cannot be read may have a monitor.
        """
        jails = [self.store.jails / program for program in os.listdir(self.store.jails)]
        found = [place / self.id for place in (*jails, self.store.run)]
        return [folder for folder in found if os.path.lexists(folder)]

    async def start(self) -> AsyncVmmClient:
        """Starts a monitor without a configuration, with the files that the record names.

        Raises `MonitorError`, and ValueError or OSError for a file that it cannot have.
        """
        await self.find()
        await self.end()
        record = self.record
        if record.definition.jail is None:
            await in_thread(_remove_sockets, self.folder)
        await self._make_taps(record)
        self.monitor = await self._new(record).start()
        for file in files_of(record.definition.configuration):
            await self.admit(file.path, writable=not file.is_read_only)
        return self.client

    def _new(self, record: MachineRecord) -> AsyncMonitor:
        jail, options, store = record.definition.jail, self.options, self.store
        common: dict[str, Any] = {
            "id": self.id,
            "enable_pci": record.definition.enable_pci,
            "timeout": options.timeout,
            "grace": options.grace,
            "detached": options.detached,
        }
        if jail is None:
            folder = store.run / self.id
            return AsyncMonitor(options.binary, directory=folder, cwd=self.folder, **common)
        common |= jail.model_dump() | {"uid": record.uid, "gid": record.uid}
        common["chroot_base_dir"] = store.jails
        return AsyncJailedMonitor(options.jailer, options.program, **common)

    async def _make_taps(self, record: MachineRecord) -> None:
        for wanted in record.definition.taps:
            from generated_vmm.process.network import Tap  # needs the extra `network`

            tap = Tap(**wanted.model_dump(), uid=record.uid or None)
            await tap.__aenter__()
            self._taps.append(tap)

    async def _remove_taps(self) -> None:
        while self._taps:
            await self._taps.pop().__aexit__(None, None, None)

    async def admit(self, path: str, *, writable: bool, at: str | None = None) -> None:
        """Gives a machine that runs access to a file: in a jail at the same path, or `at` another.

        Raises ValueError for a file that it may not use, and OSError.
        """
        monitor, record = self.monitor, self.record
        source = self.store.source(record, path)
        if path.startswith("/"):
            source = self.options.require_allowed(path)
            await in_thread(self.store.require_free, record, source, writable=writable)
        if isinstance(monitor, AsyncJailedMonitor):
            inside = "/" + (at or path).lstrip("/")
            with suppress(FileExistsError):
                if writable or _can_be_linked(source, monitor.root):
                    await monitor.link_in(source, inside, give=writable)
                else:
                    await monitor.copy_in(source, inside)

    async def find(self) -> End | None:
        """How its monitor has ended; None if it runs.

        Attaches to a monitor that an earlier process has left. Raises `MonitorError` if it cannot
        be attached to.
        """
        if self.monitor is None and (end := await self._attach()) is not None:
            await self._remove_taps()
            return end
        return None if self.is_up else await self.end()

    async def _attach(self) -> End | None:
        folder = max(self.folders(), key=_recorded_at, default=None)
        if folder is None or not _recorded_at(folder):
            return _end_of(None, ())
        kind = AsyncMonitor if folder.parent == self.store.run else AsyncJailedMonitor
        try:
            self.monitor = await kind.attach(folder)
        except MonitorExited as error:
            return _end_of(error.returncode, error.log)
        except MonitorError:
            if _recorded_at(folder):
                raise
            return _end_of(None, ())  # what does the work of a killed keeper has removed it
        return None

    async def look(self) -> MachineRecord:
        """Attaches to the monitor of a machine that has started, unless it has ended: see `note`.

        Returns the machine as it is stored then.
        """
        end = await self.find() if self.record.started_at is not None else None
        return await self.note(end) if end is not None else self.record

    async def note(self, end: End) -> MachineRecord:
        """Stores that its monitor has ended by itself, to be reported by the next `reconcile`."""
        return await self.change(is_told=False, **after_end(self.record, end))

    async def end(self, grace: float | None = 0) -> End:
        """Ends the monitor that this process has, with its tap devices, and says how it ended."""
        monitor, end = self.monitor, _end_of(None, ())
        if monitor is not None:
            log = [line.message for line in monitor.log]
            end = _end_of(await monitor.stop(grace), log)
            await self._forget()
        await self._remove_taps()
        return end

    async def _forget(self) -> None:
        monitor, self.monitor = self.monitor, None
        if monitor is not None:
            await monitor.client.close()

    async def let_go(self) -> None:
        """Gives up its monitor, which continues to run if it is detached, or else ends."""
        if self.monitor is not None and self.options.detached:
            with suppress(MonitorError):  # it has ended in this moment
                await self.monitor.detach()
            await self._forget()
        await self.end()


def _end_of(returncode: int | None, log: Iterable[str]) -> End:
    last = tuple(log)[-LAST_LINES:]
    return End(how="lost" if returncode is None else "ended", returncode=returncode, log=last)


def _recorded_at(folder: Path) -> float:
    """When its keeper has last recorded a monitor; 0 if it was killed before that."""
    with suppress(FileNotFoundError):
        found = (folder / RECORD).stat()
        return found.st_mtime if found.st_size else 0.0
    return 0.0


def _can_be_linked(source: Path, root: Path) -> bool:
    """Whether a jailed user can read a hard link to a file; both must be on one file system."""
    found = source.stat()
    return bool(found.st_mode & stat.S_IROTH) and found.st_dev == root.stat().st_dev


def _remove_sockets(folder: Path) -> None:
    """Removes the sockets of vsock devices that a monitor without a jail has left."""
    for path in folder.iterdir():
        if stat.S_ISSOCK(path.lstat().st_mode):
            os.unlink(path)
