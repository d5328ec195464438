"""docs/conformance.md and the cases in this folder name the same modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = (FOLDER.parents[2] / "docs" / "conformance.md").read_text()
ROW = re.compile(r"^\| `([^`]+)` \| (.+?) \|", re.MULTILINE)

COVERED, NOT_APPLICABLE = PAGE.split("## Not applicable")
NOT_CASES = {"test_listing.py", "test_suite.py"}


def cases() -> set[tuple[str, str]]:
    """Every test function of this folder with its file."""
    files = [file for file in FOLDER.glob("test_*.py") if file.name not in NOT_CASES]
    return {
        (node.name, file.name)
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
        if node.name.startswith("test_")
    }


def test_every_module_that_is_listed_has_its_case_and_every_case_is_listed() -> None:
    listed = {
        ("test_" + module.replace("-", "_"), file.strip("`"))
        for module, file in ROW.findall(COVERED)
    }
    assert listed == cases()


def test_no_module_is_listed_twice() -> None:
    modules = [module for module, _ in ROW.findall(PAGE)]
    assert sorted(set(modules)) == sorted(modules)


def test_what_does_not_apply_says_why() -> None:
    reasons = ROW.findall(NOT_APPLICABLE)
    assert len(reasons) == NOT_APPLICABLE.count("\n| `")
