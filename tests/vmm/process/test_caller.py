# mypy: disable-error-code="func-returns-value"

"""What becomes of monitors when their caller dies, forks, or starts them in a thread that ends."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from generated_vmm.process import Monitor, MonitorStartError, nursery
from generated_vmm.process.keeper.kernel import is_ready
from generated_vmm.process.nursery import NURSERY, PROGRAM
from tests.vmm.process.conftest import (
    BEGINNING,
    PATIENCE,
    WAITS,
    Call,
    Do,
    Make,
    Watch,
    children_of,
    keeper_of,
    nursery_of,
    state_of,
    status_of,
    wait_until,
    wait_until_empty,
)
from tests.vmm.process.test_hostile import STAND_IN, stand_in_after

STARTS_TWO = """\
first = Monitor(binary, directory=folder + "/1", timeout=30).start()
first.client.vsock.set(guest_cid=3, uds_path=folder + "/v.sock")
second = Monitor(binary, directory=folder + "/2", timeout=30).start()
tell(pids=[first.pid, second.pid])
"""


ENDS = [f"os.kill(os.getpid(), signal.{name})" for name in ("SIGKILL", "SIGTERM", "SIGINT")]
ENDS += ["sys.exit()", "raise ValueError('on purpose')", "os._exit(3)"]


@pytest.mark.parametrize("end", ENDS)
def test_a_caller_that_ends_leaves_no_monitor_and_no_file(
    call: Call, watch: Watch, folder: Path, end: str
) -> None:
    silent = "sys.excepthook = lambda *_: None\n"
    caller = call(f"{silent}{STARTS_TWO}sys.stdin.readline()\n{end}\n{WAITS}")
    monitors = [watch(pid) for pid in caller.told()["pids"]]
    nursery = watch(nursery_of(caller.process.pid))
    caller.go_on()
    assert all(monitor.wait(PATIENCE) for monitor in monitors)
    assert nursery.wait(PATIENCE)
    wait_until_empty(folder)


BINDS = """\
monitor = Monitor(binary, directory=folder + "/vm", timeout=30).start()
monitor._owner.say("binding")
VmmClient(monitor.socket_path).vsock.set(guest_cid=3, uds_path=folder + "/v.sock")
tell()
"""


def test_a_caller_that_is_killed_in_a_call_that_binds_leaves_no_socket(
    call: Call, folder: Path
) -> None:
    caller = call("from generated_vmm import VmmClient\n" + BINDS + WAITS)
    caller.told()
    assert (folder / "v.sock").exists()
    caller.process.kill()
    wait_until_empty(folder)


def test_a_caller_that_has_ended_its_monitors_ends_without_a_warning(
    binary: list[str], folder: Path
) -> None:
    """Nor does it matter that its import path contains a `Path`."""
    code = BEGINNING + "sys.path.append(Path())\nMonitor(binary, timeout=30).start().stop()\n"
    command = [sys.executable, "-X", "dev", "-c", "from pathlib import Path\n" + code]
    given = [json.dumps(binary), str(folder)]
    ended = subprocess.run([*command, *given], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_monitors_outlive_a_nursery_and_end_with_their_caller(
    call: Call, watch: Watch, folder: Path
) -> None:
    """The next monitor gets another nursery."""
    third = "third = Monitor(binary, directory=folder + '/3', timeout=30).start()\n"
    caller = call(STARTS_TWO + "sys.stdin.readline()\n" + third + "tell(pid=third.pid)\n" + WAITS)
    monitors = [watch(pid) for pid in caller.told()["pids"]]
    nursery = watch(nursery_of(caller.process.pid))
    nursery.send_signal(signal.SIGKILL)
    assert nursery.wait(PATIENCE)
    caller.go_on()
    monitors.append(watch(caller.told()["pid"]))
    assert all(monitor.running for monitor in monitors)
    caller.process.kill()
    assert all(monitor.wait(PATIENCE) for monitor in monitors)
    wait_until_empty(folder)


FORKS = """\
import os, time
if os.fork() == 0:
    os.setsid()
    {0}
    with open("new", "w") as file:
        file.write(str(os.getpid()))
    os.rename("new", "fork")
    time.sleep(1000)
"""


@pytest.mark.parametrize("step", ["pass", "os.close(0)"], ids=["with its input", "without"])
def test_clean_ends_what_kept_the_input_of_a_monitor_without_keeper_and_nursery(
    watch: Watch, folder: Path, step: str
) -> None:
    """The kernel ends an unjailed monitor with its keeper, but not what the monitor has forked."""
    program = stand_in_after(FORKS.format(step))
    monitor = Monitor(program, directory=folder / "vm", cwd=folder, timeout=PATIENCE).start()
    wait_until((folder / "fork").exists)
    child, fork = watch(monitor.pid), watch(int((folder / "fork").read_text()))
    assert NURSERY.pid is not None
    for victim in (watch(NURSERY.pid), watch(keeper_of(monitor.pid))):
        victim.send_signal(signal.SIGKILL)
        assert victim.wait(PATIENCE)
    assert child.wait(PATIENCE)
    assert monitor.wait(PATIENCE) is None
    assert not fork.wait(0)
    assert status_of(folder / "vm", clean=True) == "removed"
    assert fork.wait(0) is (step == "pass")
    assert not (folder / "vm").exists()
    if step != "pass":
        fork.send_signal(signal.SIGKILL)


def test_a_nursery_has_no_descriptor_for_each_monitor(start: Make) -> None:
    """A caller that gives monitors up may have more of them than a process has descriptors."""
    start(STAND_IN)
    nursery = NURSERY.pid or 0
    wait_until(lambda: state_of(nursery) == "S")  # it has offered a keeper
    before = len(os.listdir(f"/proc/{nursery}/fd"))
    start(STAND_IN)
    start(STAND_IN)
    wait_until(lambda: len(os.listdir(f"/proc/{nursery}/fd")) <= before)


def test_a_keeper_that_is_killed_before_it_has_an_order_is_replaced(
    start: Make, watch: Watch
) -> None:
    pid = keeper_of(start(STAND_IN).pid)
    wait_until(lambda: is_ready(NURSERY._offers.number))  # type: ignore[union-attr]
    for each in [watch(spare) for spare in children_of(NURSERY.pid or 0) if spare != pid]:
        each.send_signal(signal.SIGKILL)
        assert each.wait(PATIENCE)
    assert start(STAND_IN).running


def test_a_start_waits_for_a_keeper_not_for_the_nursery(
    start: Make, make: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One keeper is forked in advance. There is no other while the nursery is frozen."""
    start(STAND_IN)
    wait_until(lambda: is_ready(NURSERY._offers.number))  # type: ignore[union-attr]
    monkeypatch.setattr(nursery, "LONGEST_END", 0.05)
    os.kill(NURSERY.pid or 0, signal.SIGSTOP)
    try:
        assert start(STAND_IN).running
        with pytest.raises(MonitorStartError, match="no keeper can be started: timed out"):
            do(make(STAND_IN).start())
    finally:
        os.kill(NURSERY.pid or 0, signal.SIGCONT)


def test_a_nursery_that_cannot_fork_says_why(
    make: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Mock(return_value=(["none", str(errno.EAGAIN)], []))
    monkeypatch.setattr(NURSERY, "_next_offer", refused)
    with pytest.raises(MonitorStartError, match="no keeper can be started: the limit of processes"):
        do(make(STAND_IN).start())


def test_a_nursery_imports_little() -> None:
    """What it imports lies between what its keepers touch, so that they share less memory."""
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(PROGRAM), "[]"]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    imported = {line.rpartition("|")[2].strip() for line in printed.splitlines()}
    assert "generated_vmm.process.keeper.keeper" in imported
    assert not imported & {"typing", "dataclasses", "inspect", "pathlib", "pydantic"}


def test_whatever_the_program_forks_ends_with_it(folder: Path, watch: Watch) -> None:
    """A child, which is the monitor here, and a daemon with a session of its own."""
    program = folder / "firecracker"
    daemon = f"(setsid sh -c 'echo $$ >{folder}/daemon; exec sleep 1000' &)\n"
    program.write_text(f'#!/bin/sh\n{daemon}{" ".join(STAND_IN)} "$@"\n')
    program.chmod(0o755)
    for end in (Monitor.stop, Monitor.kill, lambda monitor: os.kill(monitor.pid, 9)):
        with contextlib.suppress(FileNotFoundError):
            (folder / "daemon").unlink()
        monitor = Monitor(program, directory=folder / "vm", timeout=PATIENCE).start()
        while not (folder / "daemon").exists() or not (folder / "daemon").read_text():
            os.sched_yield()
        daemon_process = watch(int((folder / "daemon").read_text()))
        assert os.getsid(daemon_process.pid) != monitor.pid
        child = watch(children_of(monitor.pid)[0])
        end(monitor)
        monitor.wait(PATIENCE)
        assert daemon_process.wait(0)
        assert child.wait(0)
        monitor.kill()


def test_a_fork_does_not_keep_monitors_alive(call: Call, watch: Watch) -> None:
    caller = call(STARTS_TWO + "fork = os.fork() or time.sleep(1000)\ntell(pid=fork)\n" + WAITS)
    monitors = [watch(pid) for pid in caller.told()["pids"]]
    fork = watch(caller.told()["pid"])
    caller.process.kill()
    assert all(monitor.wait(PATIENCE) for monitor in monitors)
    assert fork.running


def test_a_fork_does_not_end_the_monitors_of_its_parent(start: Make, do: Do) -> None:
    monitor = start()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(int(PATIENCE))
            do(monitor.stop())
            do(monitor.kill())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert do(monitor.client.get_instance_info()).state == "Not started"


FORKS_IN_A_START = """\
from generated_vmm.process.nursery import NURSERY, PROGRAM
order = NURSERY.order
def order_and_fork(*names, content):
    connection = order(*names, content=content)
    if os.fork() == 0:
        os.close(1)
        time.sleep(1000)
    return connection
NURSERY.order = order_and_fork
monitor = Monitor(binary, timeout=30).start()
tell(pid=monitor.pid)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("victim_of", "told"),
    [(int, {"status": -9, "ending": "ended"}), (keeper_of, {"status": None, "ending": "lost"})],
    ids=["monitor", "keeper"],
)
def test_a_fork_in_the_middle_of_a_start_hides_no_end(
    call: Call, victim_of: Callable[[int], int], told: dict[str, Any]
) -> None:
    """It has a copy of the connection."""
    waits = f"tell(status=monitor.wait({PATIENCE}), ending=monitor.ending)\n"
    caller = call(FORKS_IN_A_START + waits)
    os.kill(victim_of(caller.told()["pid"]), signal.SIGKILL)
    caller.go_on()
    assert caller.told() == told
    caller = call(FORKS_IN_A_START + "tell(status=monitor.stop())\n")
    caller.told()
    caller.go_on()
    assert caller.told() == {"status": -signal.SIGKILL}


def test_a_fork_has_monitors_and_a_nursery_of_its_own(call: Call, watch: Watch) -> None:
    caller = call(
        STARTS_TWO
        + "if os.fork() == 0:\n"
        + "    third = Monitor(binary, timeout=30).start()\n"
        + "    tell(pid=third.pid, fork=os.getpid())\n"
        + "    time.sleep(1000)\n"
        + WAITS
    )
    parents = [watch(pid) for pid in caller.told()["pids"]]
    told = caller.told()
    third, fork = watch(told["pid"]), watch(told["fork"])
    fork.send_signal(signal.SIGKILL)
    assert third.wait(PATIENCE)
    assert all(monitor.running for monitor in parents)


def test_a_monitor_outlives_the_thread_that_started_it(binary: list[str]) -> None:
    started: list[Monitor] = []
    monitor = Monitor(binary, timeout=PATIENCE)
    thread = threading.Thread(target=lambda: started.append(monitor.start()))
    thread.start()
    thread.join()
    with started[0].client as client:
        assert client.get_instance_info().state == "Not started"
    assert monitor.stop() == -signal.SIGKILL
