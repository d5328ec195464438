"""The table of client members for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from codegen.document import Document, answer_of, body_of, operations_of, references_in
from codegen.report import without_member

HEAD = Path(__file__).with_name("members_head.md")
COLUMNS = """
| Member | Endpoint | Sends | Answers | Phase | Errors |
|---|---|---|---|---|---|
"""

LEFT = """
## Operations without a member

`vm.send()` sends them; the functions that make them are in `generated_vmm._generated.operations`.

"""


def members_page(document: Document, used: set[str]) -> str:
    """The page of the members for the described API, in the order of the description.

    `used` are the generated functions that members call; operations without one come last.
    """
    sections: dict[str, list[str]] = {}
    left = without_member(document, used)
    for path, method, operation in operations_of(document):
        if (path, method, operation) not in left:
            rows = sections.setdefault(operation["tags"][0], [])
            rows.append(_row(path, method, operation))
    page = HEAD.read_text("utf-8").format(version=document["info"]["version"])
    for tag, rows in sections.items():
        page += f"\n## {tag}\n{COLUMNS}" + "".join(rows)
    if left:
        page += LEFT + "".join(_line(*found) for found in left)
    return page


def _line(path: str, method: str, operation: Document) -> str:
    return f"- `{method.upper()} {path}` (`{operation['operationId']}`)\n"


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
    yield str(operation["x-member"])
    if "x-shorthand" in operation:
        yield str(operation["x-shorthand"])


def _model(schema: Document | None) -> str:
    return f"`{next(references_in(schema))}`" if schema is not None else ""
