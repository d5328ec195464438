"""Programs of the real agent: what they are given, what they write, and how they end."""

import contextlib
import itertools
import os
import pwd
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from generated_vmm.guest import (
    Guest,
    GuestAgentError,
    GuestAgentTimeout,
    GuestProgramError,
    Output,
    ProgramFailed,
    ProgramTimeout,
    agent,
)
from tests.vmm.guest.conftest import Agent

in_groups = pytest.mark.skipif(
    not os.access(agent.own_group() or "/none", os.W_OK), reason="cgroup 2 is not writable"
)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def gone(pids: list[int]) -> bool:
    """Whether the processes end, which takes the kernel a moment."""
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(is_alive, pids))


def first_lines(items: Iterator[Output], count: int) -> list[str]:
    text = b""
    while text.count(b"\n") < count:
        text += next(items).data
    return text.decode().splitlines()


def test_a_program_returns_its_status_and_both_streams(guest: Guest) -> None:
    done = guest.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert done.args == ["sh", "-c", "echo out; echo err >&2; exit 3"]
    assert done.text == "out\n"


def test_a_signal_that_ended_it_is_told(guest: Guest) -> None:
    with pytest.raises(ProgramFailed, match="sh: ended by signal 40") as caught:
        guest.run(["sh", "-c", "kill -40 $$"], check=True)
    assert caught.value.completed.returncode == -40


def test_a_check_raises_what_the_program_said(guest: Guest) -> None:
    with pytest.raises(ProgramFailed, match="sh: exit status 7: no such thing") as caught:
        guest.run(["sh", "-c", "echo no such thing >&2; exit 7"], check=True)
    assert caught.value.completed.returncode == 7


def test_output_has_the_order_in_which_it_was_written(guest: Guest) -> None:
    script = "for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done"
    program = guest.start(["sh", "-c", script])
    found = [(each.stream, each.data) for each in program.output()]
    streams = ["stdout", "stderr"] * 3
    assert found == [
        (s, b"%c%d\n" % (ord("o" if s == "stdout" else "e"), 1 + i // 2))
        for i, s in enumerate(streams)
    ]


def test_arguments_environment_folder(guest: Guest, tmp_path: Path) -> None:
    script = 'printf "%s|" "$0" "$COLOR" "$PWD" "$PATH"'
    done = guest.run(["sh", "-c", script, "ü b"], env={"COLOR": 'a "b"\n'}, cwd=str(tmp_path))
    assert done.text.split("|")[:3] == ["ü b", 'a "b"\n', str(tmp_path)]
    assert done.text.split("|")[3]  # the agent's own variables stay


def test_paths_are_arguments(sync_guest: Guest, tmp_path: Path) -> None:
    done = sync_guest.run(
        [Path("/bin/sh"), "-c", 'pwd; echo "$0"', sync_guest.path("/a b")], cwd=tmp_path
    )
    assert done.text == f"{tmp_path}\n/a b\n"
    assert sync_guest.run(["pwd"], cwd=sync_guest.path(tmp_path)).text == f"{tmp_path}\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_without_the_groups_of_the_agent(guest: Guest) -> None:
    done = guest.run(["sh", "-c", "id -u; id -G; echo $USER"], user="nobody", cwd="/")
    user = pwd.getpwnam("nobody")
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    assert done.text == f"{user.pw_uid}\n{' '.join(map(str, groups))}\nnobody\n"


def test_limits_of_each_process(guest: Guest) -> None:
    script = "ulimit -n; ulimit -t; ulimit -v"
    limits = {"open_files": 20, "cpu_seconds": 5, "memory_kib": 500_000}
    done = guest.run(["sh", "-c", script], limits=limits)  # type: ignore[arg-type]  # a plain mapping
    assert done.text.split() == ["20", "5", "500000"]
    done = guest.run(["no-such-program"], limits={"open_files": 20})  # a shell starts it
    assert done.returncode == 127
    assert b"no-such-program" in done.stderr


@pytest.mark.parametrize(
    ("args", "cwd", "error"),
    [
        (["no-such-program"], None, FileNotFoundError),
        (["/etc/passwd"], None, PermissionError),
        (["true"], "/no/such/folder", FileNotFoundError),
    ],
)
def test_what_cannot_be_started_is_the_systems_error(
    guest: Guest, args: list[str], cwd: str | None, error: type[OSError]
) -> None:
    with pytest.raises(error, match="in the guest"):
        guest.run(args, cwd=cwd)
    assert guest.programs() == []


def test_arguments_of_the_wrong_kind_are_not_sent(guest: Guest) -> None:
    with pytest.raises(TypeError, match=r"\['sh', '-c', 'ls -l'\]"):
        guest.run("ls -l")
    with pytest.raises(ValidationError):
        guest.run(["a\udcff"])
    with pytest.raises(ValidationError):
        guest.run([])
    with pytest.raises(GuestAgentError, match="name not found: 'nobody-here'"):
        guest.run(["true"], user="nobody-here")
    for seconds in (0, -1, float("inf")):
        with pytest.raises(ValueError, match="it must be a number of seconds, more than 0"):
            guest.run(["true"], timeout=seconds)
    assert guest.programs() == []


# Input


def test_input_larger_than_any_pipe_passes_through(guest: Guest) -> None:
    data = os.urandom(3_000_000)
    assert guest.run(["cat"], input=data).stdout == data
    done = guest.run(["sh", "-c", "exec <&-; echo ready"], input=b"x" * 5_000_000)
    assert done.stdout == b"ready\n"


def test_single_bytes_of_output_fill_the_replay_and_go_on(guest: Guest) -> None:
    script = (
        "import os\nfor i in range(10000): os.write(1 + i % 2, b'x')\nos.write(1, os.read(0, 9))"
    )
    begun = time.monotonic()
    done = guest.run(["python3", "-S", "-c", script], input=b"a" * 3_000_000)
    assert done.stdout.count(b"x") == 5000
    assert done.stdout.endswith(b"aaaaaaaaa")
    assert time.monotonic() - begun < 9  # no exchange waits as long as it may


def test_input_is_empty_without_any(guest: Guest) -> None:
    assert guest.run(["cat"]).stdout == b""
    assert guest.run(["cat"], input=b"").stdout == b""


def test_input_is_written_bit_by_bit_and_closed(guest: Guest) -> None:
    program = guest.start(["cat"], stdin=True)
    items = iter(program.output())
    program.write(b"one\n")
    assert first_lines(items, 1) == ["one"]
    program.write(b"two\n")
    assert first_lines(items, 1) == ["two"]
    program.close_input()
    assert program.wait(10) == 0
    with pytest.raises(BrokenPipeError, match="reads no input"):
        program.write(b"three\n")
    with pytest.raises(BrokenPipeError, match="no input, or none without stdin=True"):
        guest.start(["cat"]).write(b"one\n")


@pytest.mark.parametrize("size", [1, 100_000])
def test_input_that_nobody_reads_is_not_taken(guest: Guest, size: int) -> None:
    program = guest.start(["sh", "-c", "exec <&-; echo ready; sleep 60"], stdin=True)
    first_lines(iter(program.output()), 1)
    with pytest.raises(BrokenPipeError, match="reads no input"):
        program.write(b"x" * size)
    (state,) = guest.programs()
    assert (state.input_bytes, state.takes_input) == (0, False)
    program.close_input()
    program.kill()


# Terminals


def test_a_terminal_has_a_size_and_takes_another(guest: Guest) -> None:
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.01; done"
    program = guest.start(["sh", "-c", script], terminal={"rows": 10, "columns": 20})
    items = iter(program.output())
    assert first_lines(items, 1) == ["10 20"]
    program.resize(50, 132)
    assert first_lines(items, 1) == ["50 132"]
    program.kill()
    assert program.wait(10) == -signal.SIGKILL


def test_a_terminal_controls_its_program(guest: Guest) -> None:
    program = guest.start(["cat"], terminal={"rows": 10, "columns": 20})
    program.write(b"hello\n")
    items = iter(program.output())
    assert first_lines(items, 2) == ["hello", "hello"]  # the echo, and cat
    program.write(b"\x03")
    assert program.wait(10) == -signal.SIGINT


# Ends

DAEMONS = """
sleep 60 & echo $!
env -i setsid sleep 61 & echo $!
setsid sh -c 'sleep 62 & echo $!; wait' &
sleep 63
"""


def test_a_signal_reaches_the_whole_group(guest: Guest) -> None:
    child_script = "sh -c 'echo $$; exec sleep 60'"  # no shell of ours, which traps the signal
    script = f"trap 'echo trapped' TERM; {child_script} & wait; wait; read line"
    program = guest.start(["sh", "-c", script], stdin=True)
    items = iter(program.output())
    child = int(first_lines(items, 1)[0])
    with pytest.raises(ValueError, match=r"a number, such as signal\.SIGTERM"):
        program.send_signal("TERM")  # type: ignore[arg-type]  # which is the point
    program.send_signal(signal.SIGTERM)
    assert first_lines(items, 1) == ["trapped"]
    assert gone([child])
    assert program.poll() is None
    program.kill()


@in_groups
def test_a_kill_ends_one_program_and_not_its_neighbours(guest: Guest) -> None:
    before = guest.start(["true"])
    before.wait(10)
    first = guest.start(["sh", "-c", "setsid sleep 60 & echo $!; sleep 61"])  # in its group
    pids = [int(first_lines(iter(first.output()), 1)[0]), first.state.pid]
    second = guest.start(["sleep", "62"])
    before.kill()
    assert all(map(is_alive, pids))
    first.kill()
    assert gone(pids)
    assert is_alive(second.state.pid)
    second.kill()


@in_groups
def test_no_process_survives_a_kill_in_whatever_session(guest: Guest) -> None:
    program = guest.start(["sh", "-c", DAEMONS])
    pids = [int(line) for line in first_lines(iter(program.output()), 3)]
    assert all(map(is_alive, pids))
    program.kill()
    assert program.wait(10) == -signal.SIGKILL
    assert gone(pids)


@in_groups
def test_the_time_limit_ends_the_program_and_not_only_the_wait(guest: Guest) -> None:
    with pytest.raises(ProgramTimeout, match="sh: ended by its time limit") as caught:
        guest.run(["sh", "-c", "sleep 60 & setsid sleep 61 & echo $! $$; wait"], timeout=0.3)
    assert gone([int(pid) for pid in caught.value.completed.text.split()])


def test_the_time_limit_ends_a_program_whose_output_never_pauses(guest: Guest) -> None:
    program = guest.start(["yes"], timeout=0.3)
    for _ in program.output():
        pass
    assert (program.state.timed_out, program.state.returncode) == (True, -signal.SIGKILL)


def test_a_wait_for_a_program_whose_output_nobody_reads_says_so(guest: Guest) -> None:
    program = guest.start(["sh", "-c", "echo hello; read never"], stdin=True)
    while program.poll() is None and not program.state.output_bytes:
        pass
    with pytest.raises(GuestAgentTimeout, match="; its input is open: close_input"):
        program.wait(0.05)
    program.write(b"now\n")
    assert program.communicate().stdout == b"hello\n"


UNREAD = "its output is unread: use `communicate`"
OPEN = "its input is open: close_input() ends it"


@pytest.mark.parametrize("told", [UNREAD, OPEN, None])
def test_a_wait_for_ever_for_what_the_caller_has_not_done_is_told(
    sync_guest: Guest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    told: str | None,
) -> None:
    args = ["cat", "/dev/zero"] if told == UNREAD else ["sh", "-c", "echo x; sleep 60"]
    program = sync_guest.start(args, id="stuck", stdin=told == OPEN)
    exchange, waits = program._exchange, itertools.count()
    while program.state.output_bytes < (agent.REPLAY if told == UNREAD else 1):
        exchange()
    exchange()

    def exchanged(_: float) -> None:
        exchange(signal=signal.SIGKILL if next(waits) > 1 else None)

    monkeypatch.setattr(program, "_exchange", exchanged)
    assert program.wait() == -signal.SIGKILL
    assert bool(caplog.messages) is bool(told)
    assert all(message.endswith(str(told)) for message in caplog.messages)


def test_a_wait_that_is_too_long_leaves_the_program_running(guest: Guest) -> None:
    program = guest.start(["sleep", "60"])
    with pytest.raises(GuestAgentTimeout, match=r"has not ended within 0\.05 s") as caught:
        program.wait(0.05)
    assert program.poll() is None
    assert "unread" not in str(caught.value)
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        program.resize(1, 1)
    program.send_signal(signal.SIGTERM)
    assert program.wait(10) == -signal.SIGTERM
    program.send_signal(signal.SIGTERM)  # nothing happens
    assert program.poll() == -signal.SIGTERM


@in_groups
def test_a_daemon_that_holds_the_output_does_not_hold_the_end(guest: Guest, tmp_path: Path) -> None:
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.01; done"
    daemon = f"{wait}; head -c 300000 /dev/zero; echo $? >{tmp_path}/status; sleep 60"
    program = guest.start(["sh", "-c", f"setsid sh -c '{daemon}' & echo $!"])
    done = program.communicate()
    assert done.returncode == 0
    pid = int(done.stdout)
    (tmp_path / "go").touch()
    wait = f"until [ -s {tmp_path}/status ]; do sleep 0.01; done; cat {tmp_path}/status"
    assert guest.run(["sh", "-c", wait], timeout=60).text == "0\n"  # what it wrote is dropped
    assert is_alive(pid)
    program.kill()
    assert gone([pid])


@in_groups
def test_the_agent_takes_its_programs_with_it(running: Agent, guest: Guest) -> None:
    program = guest.start(["sh", "-c", "setsid sleep 60 & echo $!; sleep 61"])
    pids = [int(first_lines(iter(program.output()), 1)[0]), program.state.pid]
    running.stop()
    assert gone(pids)


def test_a_program_that_floods_is_ended(guest: Guest) -> None:
    with pytest.raises(GuestProgramError, match="more than 1000000 bytes"):
        guest.run(["cat", "/dev/zero"], max_output_bytes=1_000_000)
    (state,) = guest.programs()
    assert gone([state.pid])


# Output that waits, and output that is lost

SIZE = 5_000_000


def test_a_program_waits_while_nobody_reads(guest: Guest) -> None:
    script = f"head -c {SIZE} /dev/zero; echo end >&2"
    program = guest.start(["sh", "-c", script])
    with pytest.raises(GuestAgentTimeout):
        program.wait(0.3)
    assert program.state.output_bytes <= agent.REPLAY + agent.PART
    with pytest.warns(RuntimeWarning, match=r"\['sh', .*stands still until its output is re"):
        program.poll()
    found = list(program.output())
    assert sum(len(each.data) for each in found if each.stream == "stdout") == SIZE
    assert not any(each.lost_bytes for each in found)
    assert program.state.returncode == 0
    again = list(guest.attach(program.id).output())  # what can be read again is bounded
    assert again[0].lost_bytes + sum(len(each.data) for each in again) == SIZE + 4
    assert sum(len(each.data) for each in again) <= agent.REPLAY + 2 * agent.PART
    with pytest.raises(GuestProgramError, match=f"{again[0].lost_bytes} bytes of its output"):
        guest.attach(program.id).communicate()


def test_an_offset_that_the_output_does_not_have_is_refused(guest: Guest) -> None:
    guest.start(["echo", "hello"], id="hello").wait(10)
    assert guest.attach("hello", offset=6).communicate().stdout == b""
    for offset in (-1, 7):
        with pytest.raises(ValueError, match="the output of hello has 6 bytes"):
            guest.attach("hello", offset=offset)


SHELL = r"no shell reads '\|': it is an argument, unlike in \['sh', '-c', 'echo a \| wc'\]$"


def test_what_is_meant_for_a_shell(guest: Guest) -> None:
    with pytest.warns(RuntimeWarning, match=SHELL):
        assert guest.run(["echo", "a", "|", "wc"]).text == "a | wc\n"
    with pytest.warns(RuntimeWarning, match=r"no shell reads '~/a'"):
        guest.run(["ls", "~/a"])
    assert guest.run(map(str, ["echo", "a"])).text == "a\n"  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError) as caught:
        guest.run(["echo hello"])
    assert caught.value.__notes__ == ["args is a list of words: ['echo', 'hello']"]


@pytest.mark.parametrize(("seconds", "is_told"), [(5000, True), (7200, False), (18_000, False)])
def test_a_time_limit_that_seems_to_be_milliseconds(
    guest: Guest, seconds: int, is_told: bool
) -> None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        guest.run(["true"], timeout=seconds)
        guest.start(["true"]).wait(timeout=seconds)
    said = f"timeout is in seconds: {seconds} are 1.4 hours"
    assert [str(warning.message) for warning in caught] == [said] * 2 * is_told
