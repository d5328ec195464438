"""The Python blocks of the page run as they stand, with the real agent and a simulated monitor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generated_vmm import VmmClient
from generated_vmm.guest import Guest
from generated_vmm.testing import SimulatedMonitor

PAGE = Path(__file__).parents[3] / "docs" / "vmm" / "programs.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_blocks_of_the_page_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    renewed: list[object] = []
    monkeypatch.setattr(Guest, "set_clock", lambda _: renewed.append("clock"))
    monkeypatch.setattr(Guest, "renew_identity", lambda _, *, hostname: renewed.append(hostname))
    blocks = [block.replace("/tmp/", f"{tmp_path}/") for block in BLOCK.findall(PAGE.read_text())]
    with SimulatedMonitor("api.socket", check_files=False) as monitor:
        monitor.guest.run_agent()
        with VmmClient(monitor.socket_path) as vm:
            vm.vsock.set(guest_cid=3, uds_path="v.sock")
            vm.boot("/vm/vmlinux", "/vm/rootfs.ext4")
        names: dict[str, object] = {"__name__": "programs"}
        for block in blocks:
            exec(compile(block, "programs.md", "exec", dont_inherit=True), names)
    assert renewed == ["clock", "clone-1"]
    printed = capsys.readouterr().out.splitlines()
    for promised in re.findall(r"print\(.*\)  # (.+)", "\n".join(blocks)):
        assert any(line.startswith(promised) for line in printed), promised
