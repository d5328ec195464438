"""A guest that is held for a snapshot, and a copy of it that gets an identity of its own."""

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from generated_vmm.guest import Guest, GuestAgentError, GuestAgentLost, agent
from tests.vmm.guest import isolated
from tests.vmm.guest.conftest import Agent, Requests, Start

LOOP = "while :; do echo x; done"


def test_a_held_program_stands_still_and_runs_again(
    guest: Guest, running: Agent, connect: Start, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    written.touch()
    guest.start(["sh", "-c", f"{LOOP} >>{written}"])
    guest.hold()
    size = written.stat().st_size
    for _ in range(100):
        guest.info()
    assert written.stat().st_size == size
    guest.release()
    program = guest.start(["sh", "-c", f"tail -c +{size + 1} -f {written} | head -n 1"])
    assert next(iter(program.output())).data == b"x\n"
    program.kill()


def test_nothing_starts_while_the_guest_is_held(
    running: Agent, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start is repeated until its time is up; here the first pause takes longer."""
    for half in ("_sync", "_async"):
        monkeypatch.setattr(f"generated_vmm.guest.{half}.link.PAUSE", 60)
    impatient = connect(running.socket_path, port=None, timeout=30)
    impatient.hold()
    with pytest.raises(GuestAgentLost, match="nothing starts before"):
        impatient.start(["true"])
    impatient.release()
    assert impatient.run(["true"]).returncode == 0


def test_a_program_that_is_held_can_be_killed(guest: Guest) -> None:
    program = guest.start(["sh", "-c", f"{LOOP} >/dev/null"])
    guest.hold()
    program.kill()
    assert program.wait(10) == -9
    guest.release()


def test_a_hold_ends_by_itself_and_the_next_one_is_not_shortened(
    monkeypatch: pytest.MonkeyPatch, programs: Requests
) -> None:
    monkeypatch.setattr(agent, "ISOLATED", True)
    monkeypatch.setattr(agent, "HOME", "/none")
    monkeypatch.setattr(agent, "HELD_SECONDS", 0.0)
    programs.put_hold()
    monkeypatch.setattr(agent, "HELD_SECONDS", 60.0)
    programs.put_hold()
    programs.expire()
    programs.put_identity({"release": True})
    monkeypatch.setattr(agent, "HELD_SECONDS", 0.0)
    programs.put_hold()
    with monkeypatch.context() as used_up:
        used_up.setattr(agent, "groups_beside", Mock(side_effect=OSError(errno.EMFILE, "none")))
        programs.expire()
    assert programs.held_until, "it is tried again"
    programs.expire()
    with pytest.raises(agent.Refused, match="not held any more"):
        programs.put_identity({"release": True})


def test_a_guest_without_control_groups_cannot_be_held(
    monkeypatch: pytest.MonkeyPatch, programs: Requests
) -> None:
    monkeypatch.setattr(agent, "ISOLATED", True)
    with pytest.raises(agent.Refused, match="without cgroup 2"):
        programs.put_hold()
    assert not programs.held_until


def test_what_fails_in_a_renewal_leaves_the_guest_held(
    monkeypatch: pytest.MonkeyPatch, programs: Requests
) -> None:
    monkeypatch.setattr(agent, "ISOLATED", True)
    monkeypatch.setattr(agent, "HOME", "/none")
    monkeypatch.setitem(agent.RENEWALS, "seed", Mock(side_effect=OSError("no")))
    programs.put_hold()
    with pytest.raises(OSError, match="no"):
        programs.put_identity({"seed": "x", "release": True})
    assert programs.held_until
    programs.delete_hold()
    assert not programs.held_until


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """The folder of an agent as in a copy of a machine that was held."""
    command = [sys.executable, isolated.__file__, str(tmp_path / "s"), str(tmp_path), "held"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"agent: listening\n"
        yield tmp_path
        process.terminate()


def test_nothing_runs_in_a_copy_before_its_identity_is_renewed(copy: Path) -> None:
    with Guest(copy / "s", port=None) as guest:
        guest.renew_identity(hostname="copy", release=True)
        program = guest.start(["sh", "-c", f"tail -n +1 -f {copy}/seen | head -n 3"])
        seen = b"".join(piece.data for piece in program.output())
    steps = [line.split() for line in (copy / "renewed").read_text().splitlines()]
    assert steps == [[name, "0"] for name in agent.RENEWALS]
    assert seen == (copy / "machine_id").read_bytes() * 3


def test_a_copy_that_was_released_before_is_refused(copy: Path) -> None:
    with Guest(copy / "s", port=None) as guest:
        guest.release()
        with pytest.raises(GuestAgentError, match="not held any more"):
            guest.renew_identity(release=True)
    assert not (copy / "renewed").exists()


def test_everything_beside_the_agent_is_held_but_process_1(tmp_path: Path) -> None:
    unit = Path(agent.__file__).with_name("guest-agent.service").read_text()
    assert "\nSlice=agent.slice\n" in unit
    own = tmp_path / "agent.slice" / "guest-agent.service"
    program = own / "guest-1"
    services = tmp_path / "system.slice" / "sshd.service"  # held with its slice
    for group in (tmp_path / "init.scope", tmp_path / "user.slice", program, services):
        group.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.rglob("*")):
        (folder / "cgroup.procs").touch()
    found = sorted(agent.groups_beside(str(own)))
    assert found == [str(program), str(tmp_path / "system.slice"), str(tmp_path / "user.slice")]
