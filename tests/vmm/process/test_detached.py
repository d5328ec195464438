# mypy: disable-error-code="func-returns-value"

"""Monitors that survive their caller, and are taken up by another."""

import os
import select
import shutil
import signal
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.process import (
    AsyncJailedMonitor,
    Monitor,
    MonitorError,
    MonitorExited,
    MonitorStartError,
    place,
)
from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.keeper import UP, Keeper
from generated_vmm.process.keeper.record import Order, Record
from tests.vmm.process.conftest import (
    PATIENCE,
    STARTS_ONE,
    WAITS,
    Call,
    Do,
    Make,
    Watch,
    both_halves,
    keeper_of,
    status_of,
)
from tests.vmm.process.kernel import descriptors

ORDER = Order(
    Record("/vm", None, {}, jailed=False),
    user=(0, 0),
    argv=[],
    env={},
    cwd="/",
    detached=True,
)
WRONG_TYPES = '{"path": "", "id": null, "how": [], "jailed": false}'
UNREADABLE = [b"hello", b"\xff\xfe", b"\0", b"\0stop", b"x" * 60_000]
Attach = Callable[[Path], Monitor]


@pytest.fixture
def attach(make: Make, do: Do, request: pytest.FixtureRequest) -> Any:
    """Takes a monitor up, and ends it with the test."""
    taken: list[Monitor] = []
    kind = type(make())

    def attach(folder: Path) -> Monitor:
        taken.append(do(kind.attach(folder)))
        return taken[-1]

    yield attach
    for monitor in taken:
        do(monitor.kill())


def test_a_detached_monitor_outlives_its_caller_and_is_taken_up(
    call: Call, attach: Attach, do: Do, folder: Path, watch: Any
) -> None:
    caller = call(STARTS_ONE.format(True) + WAITS)
    child = watch(caller.told()["pid"])
    caller.close()
    monitor = attach(folder / "vm")
    assert monitor.pid == child.pid
    assert monitor.id == "vm-1"
    assert do(monitor.client.get_instance_info()).id == "vm-1"
    assert do(monitor.stop()) == -signal.SIGKILL
    assert monitor.ending == "ended"
    assert child.wait(0)
    assert not (folder / "vm").exists()


@both_halves
def test_a_monitor_that_was_let_go_is_taken_up(
    start: Make, attach: Attach, do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    first = start(directory=folder, detached=True)
    do(first.client.boot(**guest))
    do(first.serial.read_until(b"guest is up", timeout=PATIENCE))
    do(first.detach())
    second = attach(folder)
    assert second.pid == first.pid
    do(second.serial.write(b"a\n"))
    do(second.serial.read_until(b"guest hears a", timeout=PATIENCE))
    assert do(second.stop(grace=PATIENCE)) == 0


def test_a_monitor_that_is_let_go_in_the_moment_of_its_start_goes_on(
    make: Make, attach: Attach, do: Do, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the handler of a signal, or by another thread: the keeper hears `up` before the end."""
    monitor, send = make(directory=folder, detached=True), messages.send

    def sent(connection: socket.socket, *words: object, **given: Any) -> bool:
        if words == ("up",):
            monkeypatch.undo()
            monitor._owner.say("detach")
        return send(connection, *words, **given)

    monkeypatch.setattr(messages, "send", sent)
    do(monitor.start())
    assert do(attach(folder).client.get_instance_info()).state == "Not started"


def test_one_whose_attach_is_interrupted_at_the_end_can_be_taken_up_again(
    start: Make, attach: Attach, do: Do, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    first = start(directory=folder, detached=True)
    do(first.detach())
    with monkeypatch.context() as patched:
        patched.setattr(type(first), "_reached", interrupt)
        with pytest.raises(KeyboardInterrupt):
            attach(folder)
    assert attach(folder).pid == first.pid


def test_one_that_has_ended_is_not_taken_up_and_its_folder_is_used_again(
    start: Make, attach: Attach, do: Do, folder: Path, watch: Watch
) -> None:
    monitor = start(directory=folder, detached=True)
    do(monitor.detach())
    assert monitor.ending == "handed over"
    assert monitor.returncode is None
    keeper = watch(keeper_of(monitor.pid))
    os.kill(monitor.pid, signal.SIGKILL)
    assert keeper.wait(PATIENCE)
    with pytest.raises(MonitorExited, match="has ended by signal SIGKILL") as failure:
        attach(folder)
    assert failure.value.returncode == -signal.SIGKILL
    second = start(directory=folder, detached=True)
    assert do(second.client.get_instance_info()).state == "Not started"


def test_a_keeper_that_is_asked_right_after_the_end_says_how_it_ended(
    start: Make, attach: Attach, do: Do, folder: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not noticed yet when it is asked: by who came before, and by who attaches now."""
    monitor = start(directory=folder, detached=True)
    do(monitor.detach())
    keeper, child = watch(keeper_of(monitor.pid)), watch(monitor.pid)

    send = messages.send

    def send_and_continue(*words: Any, **given: Any) -> bool:
        is_sent = send(*words, **given)
        keeper.send_signal(signal.SIGCONT)
        return is_sent

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as early:
        early.settimeout(PATIENCE)
        early.connect(str(folder / "keeper.socket"))
        assert status_of(folder) == "detached"  # the keeper has accepted both
        keeper.send_signal(signal.SIGSTOP)
        os.kill(monitor.pid, signal.SIGKILL)
        assert child.wait(PATIENCE)
        send(early, "ask")
        monkeypatch.setattr(messages, "send", send_and_continue)
        with pytest.raises(MonitorExited, match="has ended by signal SIGKILL") as failure:
            attach(folder)
        assert failure.value.returncode == -signal.SIGKILL
        assert messages.receive(early) is None
    assert status_of(folder) == "ended"


@pytest.mark.parametrize("said", [*UNREADABLE, b"attach"])
def test_whatever_a_visitor_says_a_monitor_continues(
    start: Make, attach: Attach, do: Do, folder: Path, said: bytes
) -> None:
    first = start(directory=folder, detached=True)
    do(first.detach())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
        visitor.connect(str(folder / "keeper.socket"))
        visitor.send(said)
        visitor.settimeout(PATIENCE)
        visitor.recv(100)
    assert do(attach(folder).client.get_instance_info()).state == "Not started"


@both_halves
def test_a_keeper_ignores_what_it_cannot_read_of_its_owner(
    start: Make, do: Do, watch: Watch
) -> None:
    monitor = start()
    connection = monitor._owner._connection
    assert connection is not None
    for said in UNREADABLE:
        connection.send(said)
    do(monitor.client.vsock.set(guest_cid=3, uds_path=monitor.directory / "v.sock"))
    keeper = watch(keeper_of(monitor.pid))
    assert do(monitor.stop()) == -signal.SIGKILL
    assert keeper.wait(PATIENCE)


def test_an_owner_whose_connection_breaks_is_lost() -> None:
    """A keeper cannot read the descriptors of a message if there are too many."""
    ours, theirs = messages.pair()
    keeper = Keeper(theirs, ORDER)
    keeper.owner.goal = UP
    messages.send(ours, "bound", given=[ours.fileno()] * (messages.MOST_DESCRIPTORS + 8))
    keeper.owner.wait(PATIENCE)
    assert (keeper.owner.is_gone, keeper.owner.goal) == (True, UP)
    ours.close()


def wake_keeper(keeper_socket: int) -> None:
    """Whatever wakes a keeper, it looks whether its monitor can be found."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as guest:
        guest.connect(f"/proc/self/fd/{keeper_socket}")
    os.close(keeper_socket)


def test_one_whose_folder_was_deleted_ends(start: Make, do: Do, folder: Path, watch: Watch) -> None:
    """Nobody could ever find it."""
    monitor = start(directory=folder / "vm", detached=True)
    do(monitor.detach())
    child, keeper = watch(monitor.pid), watch(keeper_of(monitor.pid))
    keeper_socket = os.open(folder / "vm" / "keeper.socket", os.O_PATH)
    shutil.rmtree(folder / "vm")
    wake_keeper(keeper_socket)
    assert child.wait(PATIENCE)
    assert keeper.wait(PATIENCE)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("monitor.json", "is not the folder of"), ("keeper.socket", "which does not answer")],
)
def test_one_without_its_record_or_socket_is_not_taken_up(
    start: Make,
    do: Do,
    folder: Path,
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    reason: str,
) -> None:
    monitor = start(directory=folder / "vm", detached=True)
    do(monitor.detach())
    keeper = watch(keeper_of(monitor.pid))
    (folder / "vm" / name).unlink()
    monkeypatch.setattr(place, "visit", partial(messages.visit, seconds=0.1))
    with pytest.raises(MonitorError, match=reason):
        do(type(monitor).attach(folder / "vm"))
    os.kill(monitor.pid, signal.SIGKILL)
    assert keeper.wait(PATIENCE)
    assert status_of(folder / "vm", clean=True) == "removed"


def test_a_keeper_without_an_owner_wakes_up_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []

    class Poll:
        def register(self, *_: object) -> None: ...

        def poll(self, limit: float | None) -> list[tuple[int, int]]:
            waited.append(limit)
            return []

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keeper = Keeper(theirs, ORDER)
    monkeypatch.setattr(select, "poll", Poll)
    monkeypatch.setattr(keeper.folder, "is_gone", lambda: False)
    keeper._wait_for_news()
    keeper.owner._lose_owner()
    keeper._wait_for_news()
    ours.close()
    assert waited == [None, 30_000]


def test_a_keeper_hears_that_it_lost_its_owner_before_its_monitor_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until it tells the owner: the next owner is to know how the monitor ended."""
    ours, theirs = messages.pair()
    keeper = Keeper(theirs, ORDER)
    keeper.owner.goal = UP
    send = messages.send
    monkeypatch.setattr(
        messages, "send", lambda *words, **given: (ours.close(), send(*words, **given))
    )
    monkeypatch.setattr(keeper.program, "kill", lambda: -signal.SIGKILL)
    monkeypatch.setattr(keeper.folder, "undo", lambda *, keeps_folder: [str(keeps_folder)])
    assert keeper.undo() == ["True"]
    assert keeper.record.ended == -signal.SIGKILL


def test_a_keeper_hears_that_it_lost_its_owner_before_it_answers_a_visitor() -> None:
    """The owner ends, and a visitor comes, between two looks of the keeper."""
    (ours, theirs), (guest, asked) = messages.pair(), messages.pair()
    keeper = Keeper(theirs, ORDER)
    keeper.owner.goal = UP
    ours.close()
    messages.send(guest, "ask")
    keeper._answer(asked)
    answer = messages.receive(guest)
    guest.close()
    assert answer is not None
    assert answer[0][0] == "detached"


def test_a_keeper_that_is_about_to_end_is_nobodys() -> None:
    """Its owner has died in the middle of a start."""
    (ours, theirs), (guest, asked) = messages.pair(), messages.pair()
    keeper = Keeper(theirs, ORDER)
    keeper.owner._lose_owner()
    messages.send(guest, "attach")
    keeper._answer(asked)
    assert messages.receive(guest) is None
    for each in (ours, guest):
        each.close()


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"pid": 1}', "\ud800", WRONG_TYPES])
def test_a_folder_of_no_monitor_is_refused(attach: Attach, folder: Path, content: str) -> None:
    with pytest.raises(MonitorError, match="not the folder of a detached monitor"):
        attach(folder)
    (folder / "monitor.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(MonitorError, match="cannot be read"):
        attach(folder)


def test_one_of_another_kind_is_refused(start: Make, attach: Attach, do: Do, folder: Path) -> None:
    do(start(directory=folder, detached=True).detach())
    found: Any = AsyncJailedMonitor.attach(folder)
    with pytest.raises(MonitorError, match="has no monitor of this kind"):
        do(found)
    folder.chmod(0o777)
    with pytest.raises(MonitorError, match="can be changed by others"):
        attach(folder)
    folder.chmod(0o700)
    attach(folder)


@pytest.mark.parametrize("change", ["missing", "folder", "file", "link"])
def test_one_whose_outlets_were_changed_is_taken_up(
    start: Make, attach: Attach, do: Do, folder: Path, change: str
) -> None:
    """The user of a jail can do that; then the outlet stays empty."""
    first = start(directory=folder / "vm", detached=True)
    do(first.detach())
    for name in ("log", "metrics", "console.out"):
        path = folder / "vm" / name
        path.unlink()
        if change == "folder":
            path.mkdir()
        elif change == "file":
            path.write_text("a line\n")
        elif change == "link":
            path.symlink_to(folder)
    before = descriptors()
    second = attach(folder / "vm")
    assert second.pid == first.pid
    assert list(second.log) == []
    do(second.stop())
    assert descriptors() <= before


def test_one_that_was_started_with_relative_paths_is_found_from_elsewhere(
    start: Make, attach: Attach, do: Do, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = start(directory="vm", detached=True)
    do(first.client.vsock.set(guest_cid=3, uds_path="v.sock"))
    do(first.detach())
    monkeypatch.chdir("/")
    second = attach(folder / "vm")
    assert second.socket_path == folder / "vm" / "api.socket"
    do(second.stop())
    assert list(folder.iterdir()) == []


def test_what_is_written_down_is_for_its_owner_and_has_no_environment(
    start: Make, folder: Path
) -> None:
    start(directory=folder, detached=True, env={**os.environ, "TOKEN": "not-for-files"})
    path = folder / "monitor.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "not-for-files" not in path.read_text()


def test_a_folder_in_which_one_runs_is_taken(make: Make, start: Make, do: Do, folder: Path) -> None:
    first = start(directory=folder, detached=True)
    with pytest.raises(MonitorStartError, match="in use by process"):
        do(make(directory=folder, detached=True).start())
    do(first.detach())
    with pytest.raises(MonitorStartError, match="attach to it"):
        do(make(directory=folder, detached=True).start())
    again = do(type(first).attach(folder))
    assert do(again.client.get_instance_info()).state == "Not started"
    with pytest.raises(MonitorError, match="in use by process"):
        do(type(first).attach(folder))
    do(again.kill())


def test_only_a_detached_monitor_is_let_go(start: Make, do: Do) -> None:
    monitor = start()
    with pytest.raises(MonitorError, match="only a detached"):
        do(monitor.detach())
    assert monitor.running


def test_a_detached_monitor_needs_a_folder(make: Make) -> None:
    with pytest.raises(ValueError, match="needs a directory"):
        make(detached=True)
