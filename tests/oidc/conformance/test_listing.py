"""docs/conformance.md and the cases in this folder name the same modules."""

import re
from importlib import import_module
from inspect import signature
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = (FOLDER.parents[2] / "docs" / "conformance.md").read_text()
LIST = re.compile(r"^- (.+?): (`[^`]+`(?:, `[^`]+`)*)$", re.MULTILINE)

COVERED, NOT_APPLICABLE = PAGE.partition("## Covered\n")[2].split("## Not applicable\n")


def cases() -> set[tuple[str, str]]:
    """Every module with the file of its test, or of the table with its name."""
    found = set()
    for file in FOLDER.glob("test_*.py"):
        if file.name == Path(__file__).name:
            continue
        for name, value in vars(import_module(f"tests.oidc.conformance.{file.stem}")).items():
            if isinstance(value, dict):
                found |= {(key, file.name) for key in value if "-test-" in key or "further-" in key}
            elif name.startswith("test_") and "module" not in signature(value).parameters:
                found.add((name.removeprefix("test_").replace("_", "-"), file.name))
    return found


def modules(text: str) -> list[str]:
    return [name for _, names in LIST.findall(text) for name in names.replace("`", "").split(", ")]


def listed() -> set[tuple[str, str]]:
    """Each module with the file of its section."""
    found = set()
    for section in COVERED.split("\n### ")[1:]:
        [file] = re.findall(r"^File: `([^`]+)`", section, re.MULTILINE)
        found |= {(name.replace("_", "-"), file) for name in modules(section)}
    return found


def test_every_module_that_is_listed_has_its_case_and_every_case_is_listed() -> None:
    assert listed() == cases()


def test_no_module_is_listed_twice() -> None:
    names = modules(COVERED) + modules(NOT_APPLICABLE)
    assert sorted(set(names)) == sorted(names)


def test_what_does_not_apply_says_why() -> None:
    assert len(LIST.findall(NOT_APPLICABLE)) == NOT_APPLICABLE.count("\n- ") > 0
