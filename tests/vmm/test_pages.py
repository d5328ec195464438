"""The Python blocks of the pages about monitors run as they stand, with simulated monitors."""

import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm import API_VERSION, VmmClient, VmmError
from generated_vmm.guest import Guest
from generated_vmm.process.settings import JailedOptions, MonitorOptions
from generated_vmm.testing import SimulatedMonitor

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "vmm"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
pytest_plugins = ["generated_vmm.testing.plugin"]
needs_kernel = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK),
    reason="not run: networks need root and /dev/net/tun",
)


def blocks_of(page: Path) -> list[str]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert found
    return found


def run(block: str, page: str, names: dict[str, object]) -> bool:
    """Whether the block ran: those that need a newer monitor than the client's say so instead."""
    try:
        exec(compile(block, page, "exec", dont_inherit=True), names)
    except VmmError as error:
        if f"this client is made for {API_VERSION}" not in str(error):
            raise
        return False
    return True


def require_printed(blocks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fails unless the blocks have printed what remarks beside `print` promise."""
    printed = capsys.readouterr().out.splitlines()
    for promised in re.findall(r"print\(.*\)  +# (.+)", "\n".join(blocks)):
        assert any(promised.strip(". ") in line for line in printed), promised


@pytest.fixture
def monitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedMonitor]:
    """The monitor that the reader starts, on its socket in the current folder."""
    monkeypatch.chdir(tmp_path)
    with SimulatedMonitor("firecracker.socket", check_files=False) as monitor:
        yield monitor


@pytest.mark.usefixtures("monitor")
@pytest.mark.parametrize("page", ["quick-start.md", "errors.md", "fastapi.md"])
def test_the_blocks_of_a_page_run_in_order(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks, names = blocks_of(PAGES / page), dict[str, object](__name__=page)
    assert len(blocks) >= 4
    with warnings.catch_warnings(record=True):
        done = [block for block in blocks if run(block, page, names)]
    if len(done) < len(blocks):
        for value in names.values():
            if isinstance(value, VmmClient):
                value.close()
    require_printed(done, capsys)


@pytest.fixture
def firecracker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of this name that takes any host path."""
    program = folder / "firecracker"
    python = shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nexec {python} -m generated_vmm.testing --any-path "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.chdir(folder)


@pytest.mark.usefixtures("firecracker")
@pytest.mark.parametrize(
    "page",
    ["process.md", "guest.md", "machines.md", pytest.param("networks.md", marks=needs_kernel)],
)
def test_the_blocks_of_a_page_about_processes_run_in_order(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks, names = blocks_of(PAGES / page), dict[str, object](__name__=page)
    assert all(run(block, page, names) for block in blocks)
    require_printed(blocks, capsys)


def test_the_page_about_programs_runs_with_the_real_agent(
    monitor: SimulatedMonitor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    renewed: list[object] = []
    monkeypatch.setattr(Guest, "set_clock", lambda _: renewed.append("clock"))
    monkeypatch.setattr(Guest, "renew_identity", lambda _, *, hostname: renewed.append(hostname))
    blocks = [one.replace("/tmp/", f"{tmp_path}/") for one in blocks_of(PAGES / "programs.md")]
    monitor.guest.run_agent()
    Path("api.socket").symlink_to(monitor.socket_path)
    with VmmClient("api.socket") as vm:
        vm.vsock.set(guest_cid=3, uds_path="v.sock")
        vm.boot("/vm/vmlinux", "/vm/rootfs.ext4")
    names: dict[str, object] = {"__name__": "programs"}
    assert all(run(block, "programs.md", names) for block in blocks)
    assert renewed == ["clock", "clone-1"]
    require_printed(blocks, capsys)


def test_the_page_about_the_simulator_runs(simulated_monitor: SimulatedMonitor) -> None:
    names: dict[str, object] = {}
    try:
        assert all(run(block, "simulator.md", names) for block in blocks_of(PAGES / "simulator.md"))
        test = names["test_it_starts"]
        assert callable(test)
        test(simulated_monitor)
        assert simulated_monitor.state == "Running"
    finally:
        shutil.rmtree(str(names.get("folder")), ignore_errors=True)


def test_the_block_of_the_distributions_own_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = blocks_of(ROOT / "generated_vmm" / "README.md")
    assert run(block, "README.md", {"__name__": "page"})
    assert capsys.readouterr().out == "Running\n"


def test_every_option_is_documented() -> None:
    cells = re.findall(r"^\| (`.*?) \|", (PAGES / "process.md").read_text(), re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    known = {*MonitorOptions.__annotations__, *JailedOptions.__annotations__, "binary", "jailer"}
    assert known <= documented
