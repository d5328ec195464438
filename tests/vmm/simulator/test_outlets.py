"""Logger, metrics, serial and entropy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller, shows


def test_the_logger_may_be_set_again_and_makes_its_file(call: Caller, folder: Path) -> None:
    log = folder / "log"
    call.accepted("PUT", "/logger", {"log_path": str(log), "level": "Warn"})
    call.accepted("PUT", "/logger", {"level": "oFF", "module": None})
    assert log.exists()


def test_metrics_are_set_once(call: Caller, folder: Path) -> None:
    refusal = "Metrics error: Cannot initialize the metrics system due to bad user input: "
    metrics = folder / "metrics"
    assert call("PUT", "/metrics", {"metrics_path": "/no/such/folder/m"}).fault.startswith(refusal)
    call.accepted("PUT", "/metrics", {"metrics_path": str(metrics), "unknown": 1})
    assert metrics.exists()
    assert call("PUT", "/metrics", {"metrics_path": str(metrics)}).fault == (
        f"{refusal}Reinitialization of metrics not allowed."
    )


@pytest.mark.parametrize("path", ["/logger", "/serial", "/entropy", "/cpu-config", "/mmds"])
def test_an_empty_object_is_enough(call: Caller, path: str) -> None:
    call.accepted("PUT", path, {})


def test_the_serial_limiter_is_a_bare_bucket(call: Caller) -> None:
    call.accepted("PUT", "/serial", {"rate_limiter": {"size": 1, "refill_time": 1}})
    assert "missing field `size`" in call("PUT", "/serial", {"rate_limiter": {"ops": None}}).fault


def test_entropy_shows_its_limiter(call: Caller) -> None:
    call.accepted("PUT", "/entropy", {})
    assert shows(call.get("/vm/config")["entropy"], {"rate_limiter": None})
    bucket = {"size": 1, "one_time_burst": None, "refill_time": 1}
    call.accepted("PUT", "/entropy", {"rate_limiter": {"bandwidth": bucket}})
    limiter = {"rate_limiter": {"bandwidth": bucket, "ops": None}}
    assert shows(call.get("/vm/config")["entropy"], limiter)


def test_the_console_goes_to_the_serial_file(
    call: Caller, start: Callable[[], None], folder: Path
) -> None:
    call.accepted("PUT", "/serial", {"serial_out_path": str(folder / "serial")})
    start()
    assert (folder / "serial").read_text().startswith("guest is up\n")


def test_the_guest_says_what_it_was_told_to_after_the_boot(
    call: Caller, monitor: SimulatedMonitor, start: Callable[[], None], folder: Path
) -> None:
    monitor.guest.boot_messages = ["ready", "login:"]
    call.accepted("PUT", "/serial", {"serial_out_path": str(folder / "serial")})
    start()
    assert (folder / "serial").read_text().endswith("guest serves\nready\nlogin:\n")


def test_the_log_has_what_its_level_lets_through(call: Caller, folder: Path) -> None:
    settings = {"log_path": str(folder / "log"), "level": "Error", "show_level": True}
    call.accepted("PUT", "/logger", settings)
    call.accepted("PUT", "/entropy", {})
    assert (folder / "log").read_text() == ""
    refused = call("GET", "/nope").fault
    call.accepted("PUT", "/logger", {"level": "Info", "show_log_origin": True})
    error, *more = (folder / "log").read_text().splitlines()
    assert error.endswith(
        f"[anonymous-instance:fc_api:ERROR] Received Error. Status code: 400. Message: {refused}"
    )
    assert ":fc_api:INFO:" in more[-1]


def test_a_module_narrows_the_log(call: Caller, folder: Path) -> None:
    call.accepted("PUT", "/logger", {"log_path": str(folder / "log"), "module": "vmm::devices"})
    call.accepted("PUT", "/entropy", {})
    assert (folder / "log").read_text() == ""


def open_below(folder: Path) -> int:
    """How many of this process's descriptors are of files in `folder`: others come and go."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            count += descriptor.readlink().is_relative_to(folder)
    return count


def test_outlets_named_again_and_again_hold_no_more_files(
    call: Caller, kernel: str, folder: Path
) -> None:
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted("PUT", "/pmem/p", {"id": "p", "path_on_host": str(folder / "nothing")})

    def name_them() -> int:
        call.accepted("PUT", "/logger", {"log_path": str(folder / "log")})
        call("PUT", "/metrics", {"metrics_path": str(folder / "metrics")})
        call.accepted("PUT", "/serial", {"serial_out_path": str(folder / "serial")})
        assert call("PUT", "/actions", {"action_type": "InstanceStart"}).status == 400
        return open_below(folder)

    first = name_them()
    assert first > 0
    assert max(name_them() for _ in range(5)) <= first
