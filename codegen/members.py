"""The table of client members for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from codegen.document import Document, answer_of, body_of, operations_of, references_in

HEAD = Path(__file__).with_name("members_head.md")
COLUMNS = """
| Member | Endpoint | Sends | Answers | Phase | Errors |
|---|---|---|---|---|---|
"""


def members_page(document: Document) -> str:
    """The page with every operation of the described API, in the order of the description."""
    sections: dict[str, list[str]] = {}
    for path, method, operation in operations_of(document):
        rows = sections.setdefault(operation["tags"][0], [])
        rows.append(_row(path, method, operation))
    page = HEAD.read_text("utf-8").format(version=document["info"]["version"])
    for tag, rows in sections.items():
        page += f"\n## {tag}\n{COLUMNS}" + "".join(rows)
    return page


def _row(path: str, method: str, operation: Document) -> str:
    cells = (
        "<br>".join(f"`{member}`" for member in _members(operation)),
        f"`{method.upper()} {path}`",
        _model(body_of(operation)),
        _model(answer_of(operation)),
        operation.get("x-phase", ""),
        "<br>".join(operation.get("x-errors", [])),
    )
    return f"| {' | '.join(cells)} |\n"


def _members(operation: Document) -> Iterator[str]:
    yield str(operation.get("x-member", operation["operationId"]))
    if "x-shorthand" in operation:
        yield str(operation["x-shorthand"])


def _model(schema: Document | None) -> str:
    return f"`{next(references_in(schema))}`" if schema is not None else ""
