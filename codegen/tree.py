"""The files that codegen owns: compared whole, and replaced whole or not at all."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterator
from pathlib import Path

IGNORED = "__pycache__"


def recover(target: Path) -> None:
    """Undo what an interrupted run left behind: an unfinished replacement."""
    retired, fresh = _retired(target), fresh_beside(target)
    if retired.exists() and not target.exists():
        retired.rename(target)
    for leftover in (retired, fresh):
        if leftover.exists():
            shutil.rmtree(leftover)


def fresh_beside(target: Path) -> Path:
    """The place to prepare the next `target`: on the same file system, for a rename."""
    return target.with_name(f".{target.name}.new")


def replace(target: Path) -> None:
    """Put the folder prepared at `fresh_beside(target)` in the place of `target`, with two renames.

    After an interruption in between, the old folder is restored, at the latest by `recover`.
    """
    retired = _retired(target)
    try:
        if target.exists():
            target.rename(retired)
        fresh_beside(target).rename(target)
    finally:
        if not target.exists() and retired.exists():
            retired.rename(target)
    shutil.rmtree(retired, ignore_errors=True)


def write_whole(target: Path, text: str) -> None:
    """Write a file so that readers see the old text or the new one, never a part."""
    fresh = target.with_name(f".{target.name}.new")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(target)


def differences(made: Path, present: Path) -> Iterator[str]:
    """The differences between the present files and the new ones, one line each."""
    theirs, ours = _files(made), _files(present)
    for name in sorted(theirs | ours):
        if name not in ours:
            yield f"missing: {present / name}"
        elif name not in theirs:
            yield f"left over: {present / name}"
        elif not filecmp.cmp(made / name, present / name, shallow=False):
            yield f"differs: {present / name}"


def _retired(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _files(folder: Path) -> set[Path]:
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and IGNORED not in path.parts
    }
