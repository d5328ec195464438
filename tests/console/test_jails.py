"""Machines in jails: when there are any, and what one sees of the host."""

import asyncio
import json
import os
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET

import psutil
import pytest

from examples.console.demo import parts
from examples.console.host import Host
from examples.console.settings import ConsoleSettings, SettingsError
from generated_vmm.machines.store import UIDS
from tests.console.browser import Browser, create, delete, do
from tests.console.running import (
    MachineSettings,
    RunningConsole,
    disks_of,
    hosting_console,
    pid_of,
    signed_in,
)


def jailer_of(tmp_path: Path, **environment: str) -> str | None:
    """The jailer of a console with real monitors and this environment."""
    given = {"FIRECRACKER_BIN": "firecracker", "CONSOLE_FOLDER": str(tmp_path / "console")}
    ports = {"CONSOLE_PORT": "0", "CONSOLE_PROVIDER_PORT": "0"}
    settings = ConsoleSettings.from_environment({**given, **ports, **environment})
    with parts(settings) as found:
        assert isinstance(found.monitors, Host)
        asyncio.run(found.monitors.close())
        return found.monitors.launch.jailer


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jailer that is on the path."""
    path = tmp_path / "jailer"
    path.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


def test_machines_are_jailed_by_default_when_root_has_a_jailer(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert jailer_of(tmp_path) == str(program)
    assert jailer_of(tmp_path, JAILER_BIN=str(program)) == str(program)
    assert jailer_of(tmp_path, JAILER_BIN="") is None
    program.unlink()
    assert jailer_of(tmp_path) is None


@pytest.mark.parametrize(
    ("user", "name", "why"),
    [(0, "nowhere", "there is no such program"), (1000, "jailer", "jails need root")],
)
def test_a_jailer_that_is_named_and_cannot_be_used_stops_the_console(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch, user: int, name: str, why: str
) -> None:
    assert jailer_of(tmp_path, JAILER_BIN="") is None
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(SettingsError, match=why):
        jailer_of(tmp_path, JAILER_BIN=name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MachineSettings:
    names = [os.environ.get(name, "") for name in ("FIRECRACKER_BIN", "JAILER_BIN", "KERNEL")]
    if not all(names) or os.geteuid() or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        pytest.skip("not run: it needs root, FIRECRACKER_BIN, JAILER_BIN, KERNEL and /dev/kvm")
    disk = tmp_path_factory.mktemp("disk") / "disk"
    disk.write_bytes(bytes(1 << 20))
    firecracker, jailer, kernel = names
    return {"firecracker": firecracker, "jailer": jailer, "kernel": kernel, "rootfs": str(disk)}


@pytest.fixture
def console(files: MachineSettings, short_path: Path) -> Iterator[RunningConsole]:
    with hosting_console(short_path, **files) as console:
        yield console


@pytest.fixture
def alice(console: RunningConsole) -> Iterator[Browser]:
    with signed_in(console) as browser:
        yield browser


def user_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def jail_of(console: RunningConsole, folder: Path, name: str) -> Path:
    return folder / "machines" / "jails" / "firecracker" / console.machine(name).id


def test_each_machine_is_a_user_of_its_own_with_its_own_disk(
    alice: Browser, console: RunningConsole, short_path: Path
) -> None:
    users = set[int]()
    for name in ("one", "two"):
        create(alice, name)
        assert f"{name} Running" in alice.text
        assert "in a jail" in alice.text
        users.add(user_of(pid_of(console, name)))
        (disk,) = disks_of(console, name)
        assert disk.stat().st_uid == user_of(pid_of(console, name))
        inside = jail_of(console, short_path, name) / "root" / "disks"
        assert [path.name for path in inside.iterdir()] == [disk.name]
    assert len(users) == 2
    assert all(user in UIDS for user in users)
    for name in ("one", "two"):
        jail = jail_of(console, short_path, name)
        delete(alice, name)
        assert not jail.exists()


def test_a_vsock_survives_stop_and_start_and_its_user_reaches_an_access(
    alice: Browser, console: RunningConsole, short_path: Path
) -> None:
    create(alice, "talker", new__start="")
    do(alice, "talker", "devices", "Save vsock", {})
    assert "Address of the guest 3" in alice.text
    alice.click("Start")
    alice.click("Stop")
    alice.click("Start", sees="talker Running")
    alice.open("/machines/talker/guest")
    alice.click("Give access")
    reached = jail_of(console, short_path, "talker") / "root" / "vsock.socket_8080"
    while not reached.exists():
        alice.open("/machines/talker/guest")
        assert "cannot reach it" not in alice.text
    found = reached.stat()
    assert (found.st_uid, found.st_mode & 0o777) == (user_of(pid_of(console, "talker")), 0o600)
    delete(alice, "talker")


def test_a_monitor_that_names_files_of_the_host_gets_none(
    files: MachineSettings, short_path: Path
) -> None:
    """What a monitor says of its drives is believed of files in the console's folders alone."""
    secret = short_path / "secret"
    secret.write_bytes(bytes(4096))
    secret.chmod(0o600)
    folder = short_path / "console"
    with hosting_console(folder, **files) as console, signed_in(console) as alice:
        create(alice, "liar")
        alice.click("Stop")
    (written,) = folder.glob("machines/machines/*/machine.json")
    made = json.loads(written.read_text())
    made["definition"]["configuration"]["drives"][0]["path_on_host"] = str(secret)
    written.write_text(json.dumps(made))
    with hosting_console(folder, **files) as console, signed_in(console) as alice:
        alice.open("/machines/liar")
        alice.click("Start", sees="none of the folders whose files machines may use")
        assert "liar Ended" in alice.text
        delete(alice, "liar")
    assert secret.stat().st_uid == os.getuid()
    assert secret.stat().st_nlink == 1


def addresses() -> dict[str, str]:
    """The IPv4 address of each of the host's interfaces."""
    found = psutil.net_if_addrs().items()
    return {name: one.address for name, all_ in found for one in all_ if one.family == AF_INET}


def test_a_machine_has_a_network_of_its_own_while_it_runs(
    alice: Browser, console: RunningConsole
) -> None:
    before = addresses()
    create(alice, "wired", new__tap="true")
    assert "wired Running" in alice.text
    ((name, address),) = set(addresses().items()) - set(before.items())
    guest = str(ip_address(address) + 1)
    assert f"ip={guest}::{address}:255.255.255.252::eth0:off" in alice.text
    assert int(Path(f"/sys/class/net/{name}/owner").read_text()) == user_of(
        pid_of(console, "wired")
    )
    alice.click("Stop")
    assert addresses() == before
    alice.click("Start", sees="wired Running")
    assert addresses() == {**before, name: address}
    create(alice, "wired-too", new__tap="true")
    assert len(addresses()) == len(before) + 2
    for machine in ("wired", "wired-too"):
        delete(alice, machine)
    assert addresses() == before


def test_a_network_that_cannot_be_made_leaves_no_machine(
    alice: Browser, monkeypatch: pytest.MonkeyPatch, short_path: Path
) -> None:
    monkeypatch.setattr("generated_vmm.process.network.TUN", str(short_path / "none"))
    create(alice, "unwired", new__tap="true")
    alice.require(502, "cannot be created: the host has no")
    alice.open("/")
    assert "unwired" not in alice.page.links
