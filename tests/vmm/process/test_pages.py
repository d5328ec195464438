"""The Python blocks of the pages about processes run as they stand, with a simulated monitor."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from generated_vmm.process.settings import JailedOptions, MonitorOptions

PAGES = Path(__file__).parents[3] / "docs" / "vmm"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

needs_kernel = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK),
    reason="not run: networks need root and /dev/net/tun",
)


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
def test_the_blocks_of_a_page_run_in_order(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = BLOCK.findall((PAGES / page).read_text())
    assert blocks
    names: dict[str, object] = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec", dont_inherit=True), names)
    printed = capsys.readouterr().out.splitlines()
    for promised in re.findall(r"print\(.*\)  # (.+)", "\n".join(blocks)):
        assert any(line.startswith(promised) for line in printed), promised


def test_every_option_is_documented() -> None:
    cells = re.findall(r"^\| (`.*?) \|", (PAGES / "process.md").read_text(), re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    known = {*MonitorOptions.__annotations__, *JailedOptions.__annotations__, "binary", "jailer"}
    assert known <= documented
