"""Calls to walk a monitor through, each with its answer: one text for all monitors.

A paragraph of the text is a case, which `== ` names; a line with `#` is a remark. Each line is a
call, and an indented line below it the answer: a status with the words of a refusal, which may stop
at `…` where the system's own reason would follow, or the members that an object must have. A call
without an answer is accepted. `{file}`, `{folder}`, `{kernel}` and others stand for host paths.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Step:
    """One call, with the status and the words or the members of its answer."""

    method: str
    path: str
    body: object
    status: int
    says: str | dict[str, object]


@dataclass(frozen=True)
class Case:
    """What one monitor is walked through."""

    title: str
    steps: list[Step]

    @property
    def has_pci(self) -> bool:
        return self.title.startswith("With PCI")

    def __str__(self) -> str:
        last = self.steps[-1]
        return self.title or f"{last.method} {last.path} {json.dumps(last.body)}"


def cases_in(path: Path) -> list[Case]:
    """The cases of a text."""
    found = []
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        title = lines.pop(0).removeprefix("== ") if lines and lines[0].startswith("== ") else ""
        if lines:
            found.append(Case(title, list(_steps(lines))))
    return found


def _steps(lines: list[str]) -> Iterator[Step]:
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("  "):
            continue
        method, path, *body = line.split(" ", 2)
        answer = below.strip() if below.startswith("  ") else "{}" if method == "GET" else "204"
        yield Step(method, path, json.loads(body[0]) if body else None, *_answer(answer))


def _answer(text: str) -> tuple[int, Any]:
    if text.startswith("{"):
        return 200, json.loads(text)
    status, _, words = text.partition(" ")
    return int(status), words
