"""Ends of monitors, restarts, and a restart of the host."""

import os
import signal
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import MachineConfiguration
from generated_vmm.machines import Definition, Machine, Machines, RestartPolicy, records
from tests.vmm.machines.parts import definition, machines_in, monitors_of


def killed(machine: Machine) -> None:
    """The machine after its monitor was killed."""
    monitor = machine.monitor
    assert monitor is not None
    os.kill(monitor.pid, signal.SIGKILL)
    monitor.wait(30)


def told(machines: Machines) -> list[tuple[str, str]]:
    return [(one.what, one.name) for one in machines.reconcile()]


def test_the_end_of_a_monitor_is_told_once_with_its_status(
    machines: Machines, web: Machine
) -> None:
    web.start()
    assert told(machines) == []
    killed(web)
    (report,) = machines.reconcile()
    assert report.what == "ended"
    assert report.end is not None
    assert report.end.returncode == -signal.SIGKILL
    assert told(machines) == []
    assert web.record.end == report.end


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_end_in_the_block_is_told_with_its_status_by_the_next_one(
    folder: Path, is_seen: bool
) -> None:
    with machines_in(folder) as machines:
        web = machines.create("web", definition(folder))
        web.start()
        killed(web)
        if is_seen:
            assert web.state() == "Ended"
    with machines_in(folder) as machines:
        (report,) = machines.reconcile()
        assert report.end is not None
        assert (report.what, report.end.returncode) == ("ended", -signal.SIGKILL)


def test_a_restart_policy_needs_reconcile(folder: Path) -> None:
    with machines_in(folder) as machines:
        web = machines.create("web", definition(folder).replace(restart="always"))
        with pytest.warns(RuntimeWarning, match=r"autostart and restart need reconcile\(\)"):
            web.start()


def running(policy: RestartPolicy) -> records.MachineRecord:
    """What is stored of a machine that has begun to run now."""
    given: Any = {"id": "a" * 12, "name": "web", "definition": Definition(restart=policy)}
    return records.MachineRecord(**given, should_be="Running", started_at=records.now())


def restart_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "boot_id").write_text("another boot")
    monkeypatch.setattr(records, "BOOT_ID", folder / "boot_id")


@pytest.mark.parametrize(
    ("policy", "returncode", "restarts"),
    [
        ("never", 1, False),
        ("on-failure", 0, False),
        ("on-failure", 1, True),
        ("on-failure", None, True),
        ("always", 0, True),
    ],
)
def test_a_machine_restarts_as_its_policy_says(
    policy: RestartPolicy, returncode: int | None, restarts: bool
) -> None:
    record = running(policy)
    end = records.End(returncode=returncode)
    after = record.model_copy(update=record.after(end))
    assert (after.should_be == "Running") is restarts
    assert not after.is_due  # not before its pause is over
    if restarts:
        assert after.retry_at == end.at + timedelta(seconds=1)


def test_the_pauses_become_longer_and_begin_anew_after_a_long_run() -> None:
    record = running("always")
    pauses = []
    for _ in range(12):
        end = records.End(returncode=0)
        record = record.model_copy(update={"started_at": end.at, "should_be": "Running"})
        record = record.model_copy(update=record.after(end))
        record = record.model_copy(update={"failures": record.failures + 1})  # at the restart
        assert record.retry_at is not None
        pauses.append((record.retry_at - end.at).total_seconds())
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    end = records.End(returncode=0)
    long_ago = end.at - timedelta(seconds=records.LONG_RUN_SECONDS)
    record = record.model_copy(update={"started_at": long_ago, "should_be": "Running"})
    assert record.after(end)["failures"] == 0


def test_a_start_that_fails_is_tried_again_later(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "FIRST_PAUSE_SECONDS", 0.0)
    web = machines.create("web", definition(folder).replace(restart="always"))
    assert told(machines) == []
    web.start()
    kernel = (folder / "kernel").read_bytes()
    (folder / "kernel").unlink()
    killed(web)
    assert told(machines) == [("ended", "web"), ("failed", "web")]
    (folder / "kernel").write_bytes(kernel)
    assert told(machines) == [("started", "web")]


def test_a_warning_that_is_an_error_fails_one_start_and_no_other(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = definition(folder)
    deprecated = MachineConfiguration(vcpu_count=1, mem_size_mib=32, cpu_template="T2")
    configuration = current.configuration.model_copy(update={"machine_config": deprecated})
    made = {"a": current.replace(configuration=configuration), "b": current}
    for name, each in made.items():
        machines.create(name, each.replace(autostart=True))
    restart_host(folder, monkeypatch)
    monkeypatch.setattr(records, "FIRST_PAUSE_SECONDS", 60.0)
    with warnings.catch_warnings(action="error"):
        assert told(machines) == [("failed", "a"), ("started", "b")]
        assert told(machines) == []  # the next attempt is later
    assert len(monitors_of(folder)) == 1


def test_after_a_restart_of_the_host_machines_start_in_their_order(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = {"last": 3, "first": 1, "second": 2}
    with machines_in(folder) as machines:
        told(machines)
        for name, order in orders.items():
            machines.create(name, definition(folder).replace(autostart=True, order=order))
        other = machines.create("other", definition(folder))
        for machine in machines.all():
            if machine.name != "second":  # autostart does not ask what ran before
                machine.start()
        for machine in machines.all():
            if machine.monitor is not None:
                killed(machine)
    restart_host(folder, monkeypatch)
    with machines_in(folder) as machines:
        found = told(machines)
        assert caplog.messages == []
        assert [name for what, name in found if what == "started"] == ["first", "second", "last"]
        ended = {name for what, name in found if what in ("ended", "lost")}
        assert ended == {"first", "last", "other"}
        assert len(monitors_of(folder)) == 3
        assert machines.get(other.id).state() == "Ended"
        assert told(machines) == []
        for machine in machines.all():
            machine.delete()


def test_a_keeper_that_has_not_noticed_an_end_delays_autostart_and_loses_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines_in(folder, detached=False) as machines:
        web = machines.create("web", definition(folder).replace(autostart=True))
        assert told(machines) == []
        web.start()
        restart_host(folder, monkeypatch)
        assert told(machines) == []  # as if it had not ended with the host
        killed(machines.all()[0])
        assert told(machines) == [("ended", "web"), ("started", "web")]
        assert told(machines) == []


def test_autostart_is_for_the_next_boot_and_happens_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines_in(folder, detached=False) as machines:
        web = machines.create("web", definition(folder).replace(autostart=True))
        assert told(machines) == []
        restart_host(folder, monkeypatch)
        assert told(machines) == [("started", "web")]
        web.stop(grace=0)
        assert told(machines) == []
