"""docs/conformance.md and the cases in this folder name the same modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = (FOLDER.parents[2] / "docs" / "conformance.md").read_text()
LIST = re.compile(r"^- (.+?): (`[^`]+`(?:, `[^`]+`)*)$", re.MULTILINE)

COVERED, NOT_APPLICABLE = PAGE.partition("## Covered\n")[2].split("## Not applicable\n")
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


def modules(text: str) -> list[str]:
    return [name for _, names in LIST.findall(text) for name in names.replace("`", "").split(", ")]


def listed() -> set[tuple[str, str]]:
    """The test of each module with the file of its section."""
    found = set()
    for section in COVERED.split("\n### ")[1:]:
        [file] = re.findall(r"^File: `([^`]+)`", section, re.MULTILINE)
        found |= {("test_" + name.replace("-", "_"), file) for name in modules(section)}
    return found


def test_every_module_that_is_listed_has_its_case_and_every_case_is_listed() -> None:
    assert listed() == cases()


def test_no_module_is_listed_twice() -> None:
    names = modules(COVERED) + modules(NOT_APPLICABLE)
    assert sorted(set(names)) == sorted(names)


def test_what_does_not_apply_says_why() -> None:
    assert len(LIST.findall(NOT_APPLICABLE)) == NOT_APPLICABLE.count("\n- ") > 0
