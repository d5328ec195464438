"""What comes out of a running monitor, its files and fifos, and what goes into it."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import VmmTimeoutError
from generated_vmm.process import Metrics, Monitor
from generated_vmm.process.outlets import LastItems
from tests.vmm.process.conftest import PATIENCE, Do, Make, state_of

# mypy: disable-error-code="func-returns-value"


FLUSHES = 60  # more than a fifo holds


def flush(monitor: Monitor, do: Do) -> Metrics:
    """The metrics that the monitor writes when it is asked to."""
    do(monitor.client.action("FlushMetrics"))
    assert monitor.metrics.last is not None
    return monitor.metrics.last


def test_the_log_is_kept(start: Make, do: Do) -> None:
    monitor = start(id="vm-1", show_level=True, level="Info")
    do(monitor.client.get_version())
    do(monitor.kill())
    assert "[vm-1:main:INFO" in next(iter(monitor.log))
    assert "Running Firecracker v" in next(iter(monitor.log))
    assert any("/version" in line for line in monitor.log)


def test_counters_are_those_since_the_line_before(
    start: Make, do: Do, guest: dict[str, Any]
) -> None:
    monitor = start()
    do(monitor.client.boot(**guest))
    flush(monitor, do)
    for asked in (3, 1):
        for _ in range(asked):
            do(monitor.client.get_instance_info())
        counted = flush(monitor, do)
        assert counted.groups["get_api_requests"]["instance_info_count"] == asked
        assert counted.groups["put_api_requests"]["actions_count"] == 1


def test_metrics_never_fill_up(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start()
    do(monitor.client.boot(**guest))
    flushed = [flush(monitor, do) for _ in range(FLUSHES)]
    assert all(each.groups for each in flushed)


def test_the_console_is_bounded(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start(serial_bytes=16)
    do(monitor.client.boot(**guest))
    do(monitor.serial.wait(32, PATIENCE))
    piece = monitor.serial.read()
    assert len(piece.data) == 16
    assert piece.start == piece.end - 16 > 0


def test_followers_end_with_the_monitor(binary: list[str]) -> None:
    with Monitor(binary, timeout=PATIENCE) as monitor:
        seen: list[object] = []

        def follow(outlet: Any) -> None:
            seen.extend(outlet.follow(since=0))

        outlets = (monitor.serial, monitor.log, monitor.metrics)
        threads = [threading.Thread(target=follow, args=(outlet,)) for outlet in outlets]
        for thread in threads:
            thread.start()
        monitor.kill()
        for thread in threads:
            thread.join()
    assert seen


def test_input_that_no_guest_takes_has_its_time(start: Make, do: Do) -> None:
    monitor = start()
    os.kill(monitor.pid, signal.SIGSTOP)
    while state_of(monitor.pid) != "T":
        os.sched_yield()
    with pytest.raises(VmmTimeoutError, match="did not take all of 200000 bytes"):
        do(monitor.serial.write(bytes(200_000), timeout=0.05))


def test_outlets_of_ones_own_never_block_the_monitor(
    start: Make, do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    """Nobody reads these fifos while the monitor fills them."""
    paths = folder / "own.log", folder / "own.metrics"
    for path in paths:
        os.mkfifo(path)
    monitor = start(log_path=paths[0], metrics_path=paths[1])
    do(monitor.client.boot(**guest))
    for _ in range(1000):
        do(monitor.client.get_instance_info())
    assert do(monitor.client.get_instance_info()).state == "Running"
    outlets: list[LastItems[Any]] = [monitor.log, monitor.metrics]
    for outlet, path in zip(outlets, paths, strict=True):
        with pytest.warns(RuntimeWarning, match=str(path)):
            assert (list(outlet), outlet.last) == ([], None)
