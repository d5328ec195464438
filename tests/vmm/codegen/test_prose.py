"""No sentence of the releases' own files is in the project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from codegen.document import read_yaml
from tests.vmm.codegen.descriptions import PROSE, ROOT, edited, published

RUN = 6
TEXTS = ("description", "summary", "title")
FOLDERS = ("openapi", "codegen", "generated_vmm", "docs")
# A fault of the monitor, word for word, that a description quotes as well.
FAULT = "missing field: either `mem_backend` or `mem_file_path` is required"


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def runs(text: str) -> set[str]:
    """Every six words in a row."""
    found = words(text)
    return {" ".join(found[start : start + RUN]) for start in range(len(found) - RUN + 1)}


def prose(value: object) -> Iterator[str]:
    """The texts of a description that are for people."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key in TEXTS and isinstance(member, str):
                yield member
            else:
                yield from prose(member)
    elif isinstance(value, list):
        for element in value:
            yield from prose(element)


def own_files() -> list[Path]:
    suffixes = {".py", ".yaml", ".md", ".jinja", ".toml", ".yml"}
    return [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    ]


def test_texts_are_found_wherever_they_stand() -> None:
    document = edited(lambda _: None)
    assert set(prose(document)) == {PROSE}
    assert "some words that a release says" in runs(PROSE)


@pytest.mark.parametrize("path", published(), ids=lambda path: path.stem)
def test_no_six_words_in_a_row_are_a_releases(path: Path) -> None:
    theirs = {run for text in prose(read_yaml(path).value) for run in runs(text)}
    assert len(theirs) > 500
    theirs -= runs(FAULT)
    for own in own_files():
        found = runs(own.read_text(encoding="utf-8")) & theirs
        assert not found, f"{own}: {sorted(found)[:3]}"
