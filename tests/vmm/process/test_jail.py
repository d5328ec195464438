"""The jailer's command line, and the files of a jail."""

import asyncio
import errno
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from generated_vmm.process import AsyncJailedMonitor, JailedMonitor, MonitorStartError, copying
from generated_vmm.process.jail import Jail, control_groups, jailer_arguments
from generated_vmm.process.keeper.kernel import Refused
from generated_vmm.process.keeper.record import make_parents
from generated_vmm.process.nursery import NURSERY
from tests.vmm.process.conftest import PATIENCE, Watch, children_of, own_jail

MADE: list[JailedMonitor] = []


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().kill()


def jail(base: Path, **options: Any) -> JailedMonitor:
    MADE.append(own_jail(base, **options))
    return MADE[-1]


def settings(**options: Any) -> dict[str, Any]:
    own = {"id": "vm-1", "uid": 12, "gid": 34, "chroot_base_dir": "/jails"}
    return Jail("jailer", "firecracker", {**own, **options}).settings


@pytest.mark.parametrize("name", ["uid", "gid"])
def test_root_is_no_user_and_no_group_of_a_jail(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0, and root can leave a jail"):
        settings(**{name: 0})


def test_a_jail_needs_root_before_it_needs_a_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MonitorStartError, match=r"^a jail needs root: the jailer changes root"):
        jail(folder / "file/jails").start()


def test_the_jailer_is_told_who_what_and_where() -> None:
    assert jailer_arguments(settings(), "/bin/firecracker") == [
        *("--exec-file", "/bin/firecracker", "--id", "vm-1", "--uid", "12", "--gid", "34"),
        *("--chroot-base-dir", "/jails", "--"),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"netns": "/run/netns/a"}, ["--netns", "/run/netns/a"]),
        (
            {"cgroups": {"cpu.weight": "50", "pids.max": "9"}},
            ["--cgroup-version", "2", "--cgroup", "cpu.weight=50", "--cgroup", "pids.max=9"],
        ),
        (
            {"cgroups": {"cpu.shares": "50"}, "cgroup_version": 1, "parent_cgroup": "a/b"},
            ["--parent-cgroup", "a/b", "--cgroup-version", "1", "--cgroup", "cpu.shares=50"],
        ),
        ({"resource_limits": {"no-file": 99}}, ["--resource-limit", "no-file=99"]),
        ({"new_pid_ns": True}, ["--new-pid-ns"]),
    ],
)
def test_an_option_becomes_its_argument(options: dict[str, Any], words: list[str]) -> None:
    usual = jailer_arguments(settings(), "/bin/firecracker")
    assert jailer_arguments(settings(**options), "/bin/firecracker") == [*usual[:-1], *words, "--"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"uid": "nobody"}, "uid is 'nobody'; it must be a valid integer"),
        ({"gid": -1}, "gid is -1; it must be greater than or equal to 0"),
        ({"netns": "web"}, "netns is 'web'; it must be a path: /run/netns/web"),
        ({"cgroups": ["cpu.shares"]}, "cgroups is .*; it must be a valid dictionary"),
        ({"cgroup_version": 3}, "must be 1 or 2"),
        ({"cgroups": {"../escape": "1"}}, "must be a file such as"),
        ({"cgroups": {"shares": "1"}}, "must be a file such as"),
        ({"resource_limits": {"cpu": 1}}, "has 'cpu'; it must be 'fsize' or 'no-file'"),
    ],
)
def test_what_the_jailer_refuses_is_refused_before(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        settings(**options)


@pytest.mark.parametrize(
    ("options", "hierarchy", "folders"),
    [
        ({}, "", []),
        ({"cgroups": {"pids.max": "9"}}, "", ["firecracker/vm-1"]),
        ({"parent_cgroup": "a/b"}, "", ["a/b/vm-1"]),
        ({"parent_cgroup": "a"}, "unified", ["unified/a/vm-1"]),
        (
            {"cgroups": {"pids.max": "9", "cpu.a": "1", "cpuacct.b": "1"}, "cgroup_version": 1},
            "cpu,cpuacct",
            ["cpu,cpuacct/firecracker/vm-1", "pids/firecracker/vm-1"],
        ),
    ],
)
def test_the_control_groups_of_a_jail_are_known(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    hierarchy: str,
    folders: list[str],
) -> None:
    """Where they are mounted; two controllers may share a hierarchy."""
    monkeypatch.setattr("generated_vmm.process.jail.CONTROL_GROUPS", str(folder))
    (folder / hierarchy).mkdir(exist_ok=True)
    (folder / hierarchy / "cgroup.controllers").touch()
    for name in ("cpu", "cpuacct") if "," in hierarchy else ():
        (folder / name).symlink_to(hierarchy)
    found = control_groups(settings(**options), "firecracker")
    assert found == [f"{folder}/{each}" for each in folders]


def test_a_jail_is_named_for_the_program_that_a_link_leads_to(folder: Path) -> None:
    (folder / "firecracker-1.16.1").touch()
    link = folder / "firecracker"
    link.symlink_to("firecracker-1.16.1")
    made = JailedMonitor(binary=link, id="a", uid=1, gid=1, chroot_base_dir=folder)
    assert made.directory == folder / "firecracker-1.16.1" / "a"
    assert made.root == made.directory / "root"


def test_a_path_has_two_sides(folder: Path) -> None:
    made = jail(folder)
    assert made.outside("/disks/a.ext4") == made.root / "disks/a.ext4"
    assert made.outside("relative") == made.root / "relative"
    assert made.socket_path == made.root / "api.socket"


@pytest.mark.parametrize("path", ["..", "../../etc", "/../..", "/a/../../..", "//.."])
def test_no_path_inside_leads_outside(folder: Path, path: str) -> None:
    made = jail(folder)
    assert made.outside(path).is_relative_to(made.root)


def test_a_jail_may_be_as_deep_as_any_folder(folder: Path) -> None:
    made = jail(folder / ("long" * 25))
    made.copy_in(__file__, "/file")
    assert len(str(made.socket_path)) > 107
    assert made.outside("/file").exists()


def test_a_file_is_copied_in_for_the_jailed_user_alone(folder: Path) -> None:
    source = folder / "vmlinux"
    source.write_bytes(b"kernel")
    made = jail(folder / "jails")
    assert made.copy_in(source) == "/vmlinux"
    assert made.copy_in(source, "/a/b/kernel") == "/a/b/kernel"
    assert made.copy_in(source, "relative") == "/relative"
    for path in ("/vmlinux", "/a/b/kernel", "/relative"):
        copy = made.outside(path)
        assert copy.read_bytes() == b"kernel"
        assert copy.stat().st_mode & 0o777 == 0o600
        assert copy.stat().st_ino != source.stat().st_ino


def test_holes_of_a_disk_stay_holes(folder: Path) -> None:
    source = folder / "disk"
    with source.open("wb") as disk:
        disk.truncate(64 << 20)
        disk.seek(32 << 20)
        disk.write(b"data")
    made = jail(folder / "jails")
    copy = made.outside(made.copy_in(source))
    assert copy.stat().st_size == 64 << 20
    assert copy.stat().st_blocks * 512 < 1 << 20
    with copy.open("rb") as disk:
        disk.seek(32 << 20)
        assert disk.read(5) == b"data\0"


def test_a_copy_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    source = folder / "disk"
    source.write_bytes(b"disk")
    made = jail(folder / "jails")
    with monkeypatch.context() as patch:
        patch.setattr(os, "sendfile", full)
        with pytest.raises(OSError, match="No space left"):
            made.copy_in(source)
    with pytest.raises(ValueError, match="no regular file"):
        made.copy_in("/dev/null", "/disk")
    assert made.copy_in(source) == "/disk"


def test_nothing_in_a_jail_is_overwritten(folder: Path) -> None:
    source = folder / "disk"
    source.write_bytes(b"new")
    made = jail(folder / "jails")
    made.copy_in(source)
    with pytest.raises(FileExistsError):
        made.copy_in(source)
    with pytest.raises(FileExistsError):
        made.link_in(source)


def test_a_link_in_a_jail_is_the_same_file(folder: Path) -> None:
    source = folder / "disk"
    source.write_bytes(b"disk")
    source.chmod(0o640)
    made = jail(folder / "jails")
    assert made.link_in(source, "/disks/root") == "/disks/root"
    assert made.outside("/disks/root").stat().st_ino == source.stat().st_ino
    assert source.stat().st_mode & 0o777 == 0o640


def test_a_link_that_the_jailed_user_made_is_not_followed(folder: Path) -> None:
    """The monitor owns its root: a link of its making must not let root write elsewhere."""
    source, elsewhere = folder / "disk", folder / "elsewhere"
    source.write_bytes(b"disk")
    elsewhere.mkdir()
    made = jail(folder / "jails")
    made.copy_in(source, "/first")
    (made.root / "folder").symlink_to(elsewhere)
    (made.root / "file").symlink_to(elsewhere / "file")
    for path in ("/folder/file", "/file"):
        with pytest.raises(OSError, match=r"folder|file"):
            made.copy_in(source, path)
    with pytest.raises(OSError, match="folder"):
        made.link_in(source, "/folder/file")
    assert list(elsewhere.iterdir()) == []


def test_a_jail_of_another_monitor_is_left_alone(folder: Path) -> None:
    source = folder / "disk"
    source.write_bytes(b"disk")
    first, second = jail(folder / "jails"), jail(folder / "jails")
    first.copy_in(source)
    for _ in range(2):
        with pytest.raises(MonitorStartError, match="in use by process"):
            second.copy_in(source)
    with pytest.raises(MonitorStartError, match="in use by process"):
        second.start()
    assert first.outside("/disk").read_bytes() == b"disk"


def test_a_jail_that_was_not_made_here_is_left_alone(folder: Path) -> None:
    made = jail(folder / "jails")
    made.root.mkdir(parents=True)
    made.directory.chmod(0o711)
    with pytest.raises(MonitorStartError, match="has root, which no monitor left"):
        made.copy_in(__file__)
    assert made.root.is_dir()


def test_a_jail_that_cannot_be_started_is_removed(folder: Path) -> None:
    source = folder / "disk"
    source.write_bytes(b"disk")
    made = jail(folder / "jails")
    made.copy_in(source)
    with pytest.raises(MonitorStartError, match=r"ended with exit status 0|needs root"):
        made.start()
    assert not made.directory.exists()
    with pytest.raises(MonitorStartError, match=r"jailer .* does not exist"):
        jail(folder / "jails", jailer=folder / "no-jailer").copy_in(source)


def test_a_jail_whose_keeper_is_dead_is_taken_over(folder: Path, watch: Watch) -> None:
    """As after the end of its container, with files in it that were only copied."""
    first, second = jail(folder / "jails"), jail(folder / "jails")
    first.copy_in(__file__)
    assert NURSERY.pid is not None
    family = [*children_of(NURSERY.pid), NURSERY.pid]
    watched = [watch(pid) for pid in family]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for each in watched:
            each.send_signal(number)
    assert all(each.wait(PATIENCE) for each in watched)
    second.copy_in(__file__, "/other")
    assert [each.name for each in second.root.iterdir()] == ["other"]
    second.kill()
    assert not second.directory.exists()


def test_a_copy_tells_its_progress_and_can_be_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder / "disk"
    source.write_bytes(bytes(1000))
    made = jail(folder / "jails")
    monkeypatch.setattr(copying, "COPIED_AT_ONCE", 400)
    monkeypatch.setattr(copying, "_shares_blocks", lambda *_: False)
    seen: list[tuple[int, int]] = []
    made.copy_in(source, "/first", progress=lambda *given: seen.append(given))
    assert seen == [(400, 1000), (800, 1000), (1000, 1000), (1000, 1000)]
    with pytest.raises(ZeroDivisionError):
        made.copy_in(source, "/second", progress=lambda *_: 1 // 0)
    assert not made.outside("/second").exists()


async def test_a_copy_in_a_task_leaves_the_loop_free_and_can_be_cancelled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder / "disk"
    source.write_bytes(bytes(1000))
    own: Any = {
        "uid": os.getuid() or 1,
        "gid": os.getgid() or 1,
        "chroot_base_dir": folder / "jails",
    }
    made = AsyncJailedMonitor("/bin/true", "/bin/true", id="vm-1", **own)
    monkeypatch.setattr(copying, "COPIED_AT_ONCE", 1)
    monkeypatch.setattr(copying, "_shares_blocks", lambda *_: False)
    begun, go_on = asyncio.Event(), threading.Event()
    monkeypatch.setattr(os, "sendfile", after_the_first(os.sendfile, go_on))
    task = asyncio.create_task(made.copy_in(source, progress=lambda *_: begun.set()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not made.outside("/disk").exists()
    await made.kill()


def after_the_first(call: Callable[..., int], go_on: threading.Event) -> Callable[..., int]:
    """Lets one call through, the others once they may go on."""
    calls = itertools.count()

    def called(*given: int) -> int:
        assert not next(calls) or go_on.wait(PATIENCE)
        return call(*given)

    return called


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_link_that_a_stranger_puts_above_a_jail_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, other_jails = folder / "shared", folder / "others" / "jails"
    for made, mode in ((shared, 0o1777), (other_jails, 0o1711)):
        made.mkdir(parents=True)
        made.chmod(mode)
    mkdir, link = os.mkdir, shared / "x"

    def plant(path: str, *mode: int) -> None:
        if path == str(link):
            link.symlink_to(other_jails.parent)
            os.lchown(link, 1234, 1234)
        mkdir(path, *mode)

    monkeypatch.setattr(os, "mkdir", plant)
    with pytest.raises(Refused, match="belongs to user 1234"):
        make_parents(f"{link}/jails/true/vm-1")
    assert list(other_jails.iterdir()) == []


def test_an_option_that_is_refused_is_named_with_its_path(folder: Path) -> None:
    (folder / "file").touch()
    made = jail(folder / "file" / "jails")
    with pytest.raises(
        MonitorStartError, match=f"chroot_base_dir {folder}/file.*: Not a directory"
    ):
        made.copy_in(__file__)


def test_flags_and_the_id_of_a_jail_are_required_to_be_what_they_are() -> None:
    with pytest.raises(ValueError, match="enable_pci is 0; it must be a valid boolean"):
        settings(enable_pci=0)
    with pytest.raises(TypeError, match=r"str, bytes or os\.PathLike"):
        Jail("jailer", ["firecracker", "--no-api"], {"id": "a", "uid": 1, "gid": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="id is None; Field required"):
        Jail("jailer", "firecracker", {"uid": 1, "gid": 1})
    with pytest.raises(TypeError, match="directory"):
        settings(directory="/jail")
