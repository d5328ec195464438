"""Kills a control plane, or the keepers of monitors, at a chosen moment of an operation.

It runs as a program, which forks for each case: it reads a line of JSON and prints what came of it.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from generated_vmm.errors import VmmError
from generated_vmm.machines import Machine, MachineError, Machines, Report
from generated_vmm.transport import UnixChannel
from tests.vmm.forking import forked
from tests.vmm.machines.parts import definition, machines_in, monitors_of

COUNTED = {False: ("rename", "unlink"), True: ("link", "mkdir", "rename", "sendfile", "unlink")}
"""System calls that change the folder; for simulated monitors, which start slowly, the fewest."""


class Moments:
    """Counts what an operation does, and does something before the chosen moment.

    The threads that run monitors are not counted: `tests/vmm/process` has their moments.
    """

    def __init__(self, moment: int, act: Callable[[], object], *, real: bool) -> None:
        self._left, self._act = moment, act
        for name in COUNTED[real]:
            setattr(os, name, self._counted(getattr(os, name)))
        shutil.rmtree = self._counted(shutil.rmtree)  # type: ignore[assignment]
        exchange = self._counted(UnixChannel.exchange, also_after=True)
        UnixChannel.exchange = exchange  # type: ignore[method-assign]

    def _counted(self, call: Callable[..., Any], *, also_after: bool = False) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self._pass()
            result = call(*given, **named)
            if also_after:
                self._pass()
            return result

        return counted

    def _pass(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._left -= 1
        if self._left == -1:
            self._act()

    @property
    def is_over(self) -> bool:
        """Whether the chosen moment has come."""
        return self._left < 0


class Play:
    """The cases of one folder, in which the machine `web` runs."""

    def __init__(self, folder: Path, *, real: bool, jailed: bool) -> None:
        self.folder, self._kind = folder, {"real": real, "jailed": jailed}
        self._real = real

    def machines(self) -> Machines:
        return machines_in(self.folder, real=self._real)

    def set_up(self) -> str:
        with self.machines() as machines:
            machines.create("web", definition(self.folder, **self._kind)).start()
        return ""

    def prepare(self, operation: str) -> str:
        """What the operation needs before it, and what the last case may have left."""
        with self.machines() as machines:
            machines.reconcile()
            if machines.find("victim") is None:
                machines.create("victim", definition(self.folder, **self._kind))
            victim = the(machines, "victim")
            the(machines, "web").start()
            if operation in ("delete", "stop"):
                victim.start()
            if operation == "edit" and victim.is_up:
                victim.stop()
            if operation == "restore" and not machines.snapshots():
                the(machines, "web").snapshot("base")
        return ""

    def kill(self, operation: str, moment: int, *also: str) -> str:
        """Carries the operation out in a control plane that is killed, `also` with all keepers."""
        with self.machines() as machines:
            machines.reconcile()

            def die() -> None:
                if also:
                    kill_keepers_of(machines)
                os.kill(os.getpid(), signal.SIGKILL)

            Moments(moment, die, real=self._real)
            self._do(machines, operation)
        return ""

    def kill_keepers(self, operation: str, moment: int) -> str:
        """Carries the operation out; meanwhile all keepers are killed. What that has come to."""
        with self.machines() as machines:
            machines.reconcile()
            moments = Moments(moment, lambda: kill_keepers_of(machines), real=self._real)
            before, why = {one.name for one in machines.all() if one.is_up}, ""
            try:
                self._do(machines, operation)
            except (VmmError, OSError, ValueError) as error:
                why = f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}"
            result = {"is_over": moments.is_over, "why": why, "before": sorted(before)}
            reports = [(one.what, one.name) for one in reconciled(machines)]
        return json.dumps({**result, "reports": reports})

    def _do(self, machines: Machines, operation: str) -> None:
        if operation == "edit":
            self._edit(the(machines, "victim"))
        else:
            OPERATIONS[operation](machines)

    def _edit(self, victim: Machine) -> None:
        order = victim.definition.order + 1
        new = definition(self.folder, **self._kind).replace(jail=victim.definition.jail)
        victim.edit(new.replace(order=order), by="alice")

    def look(self) -> str:
        """What the next control plane finds, and whether anything was left half done."""
        with self.machines() as machines:
            reports = [
                [one.what, one.operation.kind if one.operation else "", one.name]
                for one in reconciled(machines)
            ]
            found = {one.name: one.state() for one in machines.all()}
            up = sorted(one.id for one in machines.all() if one.is_up)
            snapshots = [one.name for one in machines.snapshots() if is_whole(machines, one.id)]
            disks = [
                (disk.path_on_host, os.path.getsize(self._path(one) / str(disk.path_on_host)))
                for one in machines.all()
                for disk in one.definition.configuration.drives or []
            ]
            result = {
                "reports": reports,
                "machines": found,
                "snapshots": snapshots,
                "operations": [one.kind for one in machines.operations()],
                "strays": sorted(set(monitors_of(self.folder)) ^ set(up)),
                "left": self._left(machines),
                "disks": disks,
            }
            for one in machines.all():
                if one.name == "copy":
                    one.delete()
            for snapshot in machines.snapshots():
                if snapshot.name != "base":
                    snapshot.delete()
        return json.dumps(result)

    def _path(self, machine: Machine) -> Path:
        return self.folder / "machines" / "machines" / machine.id

    def _left(self, machines: Machines) -> list[str]:
        """Files that belong to no machine and no snapshot."""
        root = self.folder / "machines"
        known = {one.id for one in machines.all()} | {one.id for one in machines.snapshots()}
        parts = [*(root / "machines").iterdir(), *(root / "snapshots").iterdir()]
        jails = [path for path in (root / "jails").glob("*/*") if path.name not in known]
        inside = os.walk(root / "jails")  # from which the nursery may still remove something
        found = (Path(top, name) for top, _, names in inside for name in names)
        jails += [path for path in found if path.name.startswith("memory-")]
        files = [path for one in machines.all() for path in self._path(one).iterdir()]
        memory = [path for path in files if path.name.startswith(("state", "memory"))]
        strays = [path for path in parts if path.name not in known]
        return sorted(str(path) for path in (*strays, *jails, *memory))

    def tear_down(self) -> str:
        with self.machines() as machines:
            machines.reconcile()
            for machine in machines.all():
                machine.delete()
        return ""


def reconciled(machines: Machines) -> list[Report]:
    """What is told until nothing has to be tried again: the nursery may still remove a jail."""
    told: list[Report] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = machines.reconcile()
        told += [one for one in found if one.what != "failed"]
        if all(one.what != "failed" for one in found):
            break
    return told


def kill_keepers_of(machines: Machines) -> None:
    """Kills the keepers of all monitors that this process has, and waits until they are lost."""
    monitors = list(machines._monitors.values())
    for monitor in monitors:
        if monitor.running:
            os.kill(int(Path(f"/proc/{monitor.pid}/stat").read_text().split()[3]), signal.SIGKILL)
    for monitor in monitors:
        monitor.wait(60)


def is_whole(machines: Machines, snapshot: str) -> bool:
    """Whether a snapshot has all its files; half of one is an error."""
    record = next(one.record for one in machines.snapshots() if one.id == snapshot)
    folder = machines._store.snapshots.path(snapshot)
    files = ["state", "memory", *record.definition.own_disks.values()]
    return all((folder / name).stat().st_size for name in files)


def the(machines: Machines, name: str) -> Machine:
    machine = machines.find(name)
    if machine is None:
        raise MachineError(name)
    return machine


OPERATIONS: dict[str, Callable[[Machines], object]] = {
    "clone": lambda machines: the(machines, "web").clone("copy", by="alice"),
    "snapshot": lambda machines: the(machines, "web").snapshot("new", by="alice"),
    "restore": lambda machines: machines.snapshots()[0].restore("copy", by="alice"),
    "stop": lambda machines: the(machines, "victim").stop(by="alice"),
    "delete": lambda machines: the(machines, "victim").delete(by="alice"),
}


def carried_out(play: Play, call: str, given: list[Any]) -> str:
    """The result of a call in a fork, or how that has ended."""
    status, text = forked(partial(getattr(play, call), *given), seconds=600).ended()
    return json.dumps({"status": status, "text": text})


def main() -> None:
    folder, real, jailed = sys.argv[1:4]
    play = Play(Path(folder), real=real == "real", jailed=jailed == "jailed")
    for line in sys.stdin:
        call, given = json.loads(line)
        print(carried_out(play, call, given), flush=True)


if __name__ == "__main__":
    main()
