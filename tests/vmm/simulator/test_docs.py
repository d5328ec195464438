"""Every Python block of the simulator's page runs, one after the other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from generated_vmm.testing import SimulatedMonitor

PAGE = Path(__file__).parents[3] / "docs" / "vmm" / "simulator.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytest_plugins = ["generated_vmm.testing.plugin"]


def test_the_page_runs_as_it_stands(simulated_monitor: SimulatedMonitor) -> None:
    names: dict[str, object] = {}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert blocks
    try:
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
        test = names["test_it_starts"]
        assert callable(test)
        test(simulated_monitor)
        assert simulated_monitor.state == "Running"
    finally:
        shutil.rmtree(str(names.get("folder")), ignore_errors=True)
