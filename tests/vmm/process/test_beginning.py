"""Each way in which a monitor can begin, or fail to."""

import os
import resource
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from generated_vmm.process import Monitor, MonitorError, MonitorStartError, owner
from generated_vmm.process.nursery import NURSERY
from tests.vmm.process.conftest import (
    PATIENCE,
    Do,
    Make,
    both_halves,
    children_of,
    keeper_of,
    wait_until,
    wait_until_empty,
)
from tests.vmm.process.kernel import descriptors

MANY = 50


def script(folder: Path, *lines: str, mode: int = 0o755) -> str:
    """A program of one's own in place of the monitor."""
    path = folder / "program"
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    path.chmod(mode)
    return str(path)


@both_halves
def test_a_started_monitor_answers(start: Make, do: Do) -> None:
    monitor = start(id="vm-1")
    assert do(monitor.client.get_instance_info()).id == monitor.id == "vm-1"
    assert monitor.running
    assert monitor.returncode is None
    assert monitor.socket_path == monitor.directory / "api.socket"
    assert monitor.usage().memory_bytes > 0
    assert f"{monitor.pid} running" in repr(monitor)


def test_a_monitor_that_is_forgotten(binary: list[str], folder: Path) -> None:
    """Who does not say that it ends with the program, may want to attach later."""
    monitors = [Monitor(binary, directory=folder / "vm", timeout=PATIENCE).start()]
    pid = monitors[0].pid
    told = f"{pid} running.* was never stopped.*; with detached=True it goes on, and detached=False"
    with pytest.warns(RuntimeWarning, match=told):
        monitors.clear()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not (folder / "vm").exists())


def test_one_that_has_ended_by_itself_may_be_forgotten(binary: list[str], folder: Path) -> None:
    monitors = [Monitor(binary, directory=folder / "vm", timeout=PATIENCE).start()]
    keeper = keeper_of(monitors[0].pid)
    os.kill(keeper, signal.SIGSTOP)  # so that it is not removed yet
    try:
        os.kill(monitors[0].pid, signal.SIGKILL)
        wait_until(lambda: not monitors[0].running)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            monitors.clear()
        assert not [one for one in caught if "was never stopped" in str(one.message)]
    finally:
        os.kill(keeper, signal.SIGCONT)
    wait_until(lambda: not (folder / "vm").exists())


def test_the_monitor_takes_its_options(start: Make, folder: Path) -> None:
    monitor = start(
        id="vm-1",
        directory=folder / "vm",
        log_path=folder / "a.log",
        enable_pci=True,
        boot_timer=True,
        http_api_max_payload_size=60_000,
        level="Debug",
        show_level=True,
    )
    assert monitor.socket_path.is_socket()
    assert ":INFO]" in (folder / "a.log").read_text()


def test_the_monitor_is_out_of_reach_of_the_callers_terminal(start: Make) -> None:
    pid = start().pid
    assert os.getsid(pid) == os.getpgid(pid) == pid


def test_the_monitor_has_the_outlets_and_no_descriptor_of_the_caller(
    start: Make, folder: Path
) -> None:
    with (folder / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        descriptors = Path(f"/proc/{start().pid}/fd")
        for number, name in enumerate(("console.in", "console.out", "log")):
            assert (descriptors / str(number)).readlink().name == name
        same_number = descriptors / str(ours.fileno())
        assert not same_number.exists() or not same_number.samefile(ours.name)


def test_environment_and_folder_are_the_ones_given(make: Make, do: Do, folder: Path) -> None:
    work = folder / "work"
    work.mkdir()
    program = script(folder, 'echo "$TOKEN in $PWD; $OTHER" >out; exit 3')
    with pytest.raises(MonitorStartError) as failure:
        do(make(program, env={"TOKEN": "t"}, cwd=work).start())
    assert failure.value.returncode == 3
    assert (work / "out").read_text() == f"t in {work}; \n"


@pytest.mark.parametrize("name", ["no-such-monitor", "/no/such/monitor", "./no-such-monitor"])
def test_a_missing_program_is_an_error(make: Make, do: Do, name: str) -> None:
    with pytest.raises(MonitorStartError, match="does not exist"):
        do(make(name).start())


def test_a_program_that_may_not_be_executed_is_an_error(make: Make, do: Do, folder: Path) -> None:
    with pytest.raises(MonitorStartError, match="is not executable"):
        do(make(script(folder, mode=0o644)).start())
    with pytest.raises(MonitorStartError, match="is a folder"):
        do(make(folder).start())


@pytest.mark.parametrize(
    "content", [b"", b"echo a script without its first line", b"\x7fELF\x01\x01\x01" + bytes(40)]
)
def test_a_file_that_is_no_program_is_not_run(
    make: Make, do: Do, folder: Path, content: bytes
) -> None:
    path = folder / "firecracker"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(MonitorStartError, match="firecracker: Exec format error"):
        do(make(path).start())


def test_an_end_at_the_start_says_the_status_and_the_last_words(
    make: Make, do: Do, folder: Path
) -> None:
    monitor = make(config_file=folder / "missing.json")
    with pytest.raises(MonitorStartError, match="by signal SIGABRT") as failure:
        do(monitor.start())
    assert failure.value.returncode == -signal.SIGABRT
    assert any("onfiguration file" in line for line in failure.value.log)
    assert failure.value.log[-1] in str(failure.value)


def test_a_refused_argument_is_shown(make: Make, do: Do, binary: list[str]) -> None:
    with pytest.raises(MonitorStartError, match="bogus") as failure:
        do(make([*binary, "--bogus"]).start())
    assert failure.value.returncode == 153


def test_a_log_of_ones_own_is_named(make: Make, do: Do, folder: Path, binary: list[str]) -> None:
    log = folder / "own.log"
    with pytest.raises(MonitorStartError, match=f"see {log}"):
        do(make(log_path=log, config_file=folder / "missing.json").start())
    assert "Running Firecracker" in log.read_text()


@both_halves
def test_a_failed_start_leaves_nothing(make: Make, do: Do, folder: Path) -> None:
    own, late = folder / "own", {"timeout": 0.2}
    for words, options, status, why in (
        ("/bin/true", {}, 0, "ended with exit status 0"),
        ("/no/such/monitor", {}, None, "does not exist"),
        (script(folder, "exec cat"), late, -signal.SIGKILL, r"did not respond within 0\.2 s"),
    ):
        monitor = make(words, directory=own, **options)
        with pytest.raises(MonitorStartError, match=why):
            do(monitor.start())
        assert not own.exists()
        assert not monitor.running
        assert monitor.returncode == status


def test_a_monitor_is_started_once(start: Make, do: Do) -> None:
    monitor = start()
    with pytest.raises(MonitorError, match="started once"):
        do(monitor.start())
    assert do(monitor.client.get_instance_info()).state == "Not started"
    do(monitor.stop())
    with pytest.raises(MonitorError, match="started once"):
        do(monitor.start())


def test_before_the_start_there_is_nothing_to_ask(make: Make, do: Do) -> None:
    monitor = make()
    assert not monitor.running
    assert monitor.returncode is None
    assert "not started" in repr(monitor)
    for ask in ("client", "pid", "directory"):
        with pytest.raises(MonitorError, match="start"):
            getattr(monitor, ask)
    assert do(monitor.stop()) is None


def test_a_binary_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="binary is an empty sequence"):
        Monitor([])


def test_many_begin_and_end_at_once(binary: list[str]) -> None:
    def run(number: int) -> str:
        with Monitor(binary, id=f"vm-{number}", timeout=100) as monitor:
            return monitor.client.get_instance_info().id

    with ThreadPoolExecutor(MANY) as threads:
        ids = list(threads.map(run, range(MANY)))
    assert ids == [f"vm-{number}" for number in range(MANY)]


def test_a_start_with_few_descriptors_leaves_nothing(binary: list[str], folder: Path) -> None:
    """A keeper has what it needs to undo a start, whatever its caller lacks."""
    with Monitor(binary, timeout=PATIENCE):  # the nursery, and what is imported at the first use
        pass
    before = descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    outcomes = []
    for free in range(16):
        holding = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
        highest = max(holding)
        for each in holding:
            os.close(each)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest - 2 + free, hard))
            with Monitor(binary, directory=folder / "vm", timeout=PATIENCE):
                outcomes.append("started")
        except MonitorStartError as error:
            outcomes.append("refused" if "oo many open files" in str(error) else str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        wait_until_empty(folder)
        wait_until(lambda: descriptors() <= before)
    assert set(outcomes) == {"started", "refused"}
    assert outcomes == sorted(outcomes)


@both_halves
def test_a_start_without_a_keeper_has_an_end(
    make: Make, do: Do, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the nursery is frozen. What it does later, nobody wants any more."""
    do(make().start())
    os.kill(NURSERY.pid or 0, signal.SIGSTOP)
    for keeper in children_of(NURSERY.pid or 0):
        os.kill(keeper, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patch:
            for half in ("_sync", "_async"):
                patch.setattr(f"generated_vmm.process.{half}.monitor.LONGEST_ENDING", 0.05)
            with pytest.raises(MonitorStartError, match=r"monitor did not respond within 0\.05 s"):
                do(make(directory=folder / "vm").start())
    finally:
        for keeper in children_of(NURSERY.pid or 0):
            os.kill(keeper, signal.SIGCONT)
        os.kill(NURSERY.pid or 0, signal.SIGCONT)

    def has_started() -> bool:
        with suppress(MonitorStartError):  # the late keeper has the folder until it looks around
            do(make(directory=folder / "vm").start())
            return True
        return False

    wait_until(has_started)


def test_a_limit_of_processes_is_named(binary: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=RuntimeError("can't start new thread"))
    with monkeypatch.context() as patch:
        patch.setattr(owner, "start_new_thread", refuse)
        with pytest.raises(MonitorStartError, match=r"limit of processes .* pids\.max"):
            Monitor(binary).start()


def test_an_option_that_the_system_refuses_is_named(make: Make, do: Do, folder: Path) -> None:
    with pytest.raises(MonitorStartError, match=f"cwd {folder}/missing: No such file"):
        do(make(cwd=folder / "missing").start())
    (folder / "file").touch()
    with pytest.raises(MonitorStartError, match=f"directory {folder}/file/vm: Not a directory"):
        do(make(directory=folder / "file" / "vm").start())


def test_an_environment_may_be_long(make: Make, do: Do) -> None:
    """Longer than a message of the kernel, and than the limit of an order before."""
    monitor = make(env={**os.environ, "LONG": "x" * 120_000, "LONGER": "y" * 120_000})
    assert do(monitor.start()).running
