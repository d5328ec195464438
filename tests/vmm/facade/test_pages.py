"""The Python blocks of the documentation run as they stand, page by page, against a monitor."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm import API_VERSION, VmmClient, VmmError
from generated_vmm.testing import SimulatedMonitor

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "vmm"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def monitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The monitor that the reader starts, on its socket in the current folder."""
    monkeypatch.chdir(tmp_path)
    with SimulatedMonitor("firecracker.socket", check_files=False):
        yield


@pytest.mark.usefixtures("monitor")
@pytest.mark.parametrize("page", ["quick-start.md", "errors.md", "fastapi.md"])
def test_the_blocks_of_a_page_run_in_order(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = BLOCK.findall((PAGES / page).read_text())
    assert len(blocks) >= 4
    names: dict[str, object] = {"__name__": page}
    with warnings.catch_warnings(record=True):
        done = [block for block in blocks if _runs(block, page, names)]
    if len(done) < len(blocks):
        _close(names)
    printed = capsys.readouterr().out.splitlines()
    for promised in re.findall(r"print\(.*\)  +# ([^.\n]+)", "\n".join(done)):
        assert any(line.startswith(promised) for line in printed), promised


def test_the_blocks_of_the_distributions_own_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = BLOCK.findall((ROOT / "generated_vmm" / "README.md").read_text())
    assert _runs(block, "README.md", {"__name__": "page"})
    assert capsys.readouterr().out == "Running\n"


def _runs(block: str, page: str, names: dict[str, object]) -> bool:
    """Whether the block ran: those that need a newer monitor than the client's say so instead."""
    try:
        exec(compile(block, page, "exec", dont_inherit=True), names)
    except VmmError as error:
        if f"this client is made for {API_VERSION}" not in str(error):
            raise
        return False
    return True


def _close(names: dict[str, object]) -> None:
    """Close the client that a block left open when it stopped in the middle."""
    for value in names.values():
        if isinstance(value, VmmClient):
            value.close()
