"""The guest that `docs/vmm/guest.md` makes: Debian with systemd, and the agent as its unit."""

import time
from collections.abc import Callable, Iterator

import pytest

from generated_vmm.guest import Guest, GuestError

SERVICE, PROGRAM = "/srv/service", "/srv/program"
LOOP = "while :; do date +%s%N >>{}; done"


def shell(guest: Guest, script: str) -> str:
    return guest.run(["sh", "-c", script], check=True, timeout=100).text


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not is_so():
        assert time.monotonic() < deadline


def size(guest: Guest, path: str) -> int:
    try:
        return guest.path(path).stat().size
    except FileNotFoundError:
        return 0


@pytest.fixture
def service(debian: Guest) -> Iterator[None]:
    """A service of system.slice, which systemd has started."""
    shell(debian, f"systemd-run --unit=loop sh -c '{LOOP.format(SERVICE)}'")
    until(lambda: size(debian, SERVICE) > 0)
    yield
    shell(debian, f"systemctl stop loop; rm {SERVICE}")


def test_the_system_is_up_and_the_agent_is_its_unit(debian: Guest) -> None:
    assert shell(debian, "systemctl is-system-running --wait") == "running\n"
    assert shell(debian, "systemctl is-active guest-agent getty@tty1; echo $HOME") == (
        "active\nactive\n/root\n"
    )
    assert shell(debian, "cat /proc/self/cgroup").startswith(
        "0::/agent.slice/guest-agent.service/guest-"
    )


@pytest.mark.usefixtures("service")
def test_services_stand_still_with_the_programs_until_the_identity_is_new(debian: Guest) -> None:
    program = debian.start(["sh", "-c", LOOP.format(PROGRAM)])
    until(lambda: size(debian, PROGRAM) > 0)
    debian.hold()
    held = [size(debian, path) for path in (SERVICE, PROGRAM)]
    for _ in range(20):
        assert debian.info().isolated
    assert [size(debian, path) for path in (SERVICE, PROGRAM)] == held
    debian.renew_identity(hostname="renewed", release=True)
    until(lambda: size(debian, SERVICE) > held[0] and size(debian, PROGRAM) > held[1])
    assert shell(debian, "cat /proc/sys/kernel/hostname /etc/hostname") == "renewed\nrenewed\n"
    program.kill()


def test_the_programs_of_a_killed_agent_end_and_systemd_starts_another_one(debian: Guest) -> None:
    before = debian.info().instance
    debian.start(["sh", "-c", "setsid sleep 9001 & sleep 9002"])
    left = "grep -las '^sleep.900' /proc/[0-9]*/cmdline || echo none"
    until(lambda: shell(debian, left).count("cmdline") == 2)
    with pytest.raises(GuestError):
        debian.run(["sh", "-c", "kill -9 $(systemctl show -p MainPID --value guest-agent)"])

    def is_another() -> bool:
        return debian.wait_until_ready(100).instance != before

    until(is_another)
    assert shell(debian, left) == "none\n"
