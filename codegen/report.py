"""What somebody who uses the client has to know of a new description, one line for each thing."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.describe import python_name
from codegen.diff import changes
from codegen.document import Document, answer_of, body_of, operations_of, references_in, schemas_of
from codegen.schemas import plain

VERBS = {"get": "get", "put": "set", "patch": "update", "delete": "delete"}

SETTER = """\
      @overload
      def {verb}(self, body: models.{body} | Fields, /) -> None: ...
      @overload
      def {verb}(self, /, **fields: Unpack[models.{body}Fields]) -> None: ...
      def {verb}(self, body: models.{body} | Fields | None = None, /, **fields: object) -> None:
          \"""... ({place}).\"""
          self._send(operations.{function}({ids}as_model(models.{body}, body, fields)))
"""
GETTER = """\
      def {verb}(self) -> {answer}:
          \"""... ({place}).\"""
          {give}self._send(operations.{function}({ids}))
"""
MEMBER = """\
client: {place} ({id}) has no member; `vm.send(operations.{function}(...))` calls it. To write one,
  in the class of its resource in generated_vmm/facade:
{code}  in openapi/overlay.yaml:
  - target: $.paths['{path}'].{method}
    update:
      description: ...
      x-member: {member}.{verb}
      x-phase: any
      x-errors: []"""


def report(before: Document | None, after: Document, gone: set[str]) -> Iterator[str]:
    """The difference to the description so far, and the names that are not where they were.

    `gone` are names that the package exported so far and does no more.
    """
    if before is not None:
        versions = [document["info"]["version"] for document in (before, after)]
        for line in changes(before, after):
            yield f"{' -> '.join(versions)}: {line}"
        for place in sorted(moved_fields(after) - moved_fields(before)):
            yield f"name: {place}, as every model has something of that name"
    for name in sorted(gone):
        yield f"name: {name} is gone from generated_vmm; programs that import it fail"


def moved_fields(document: Document) -> set[str]:
    """The fields whose models cannot have them under their own names."""
    return {
        f"{name}.{field} is {name}.{python_name(field)} in Python"
        for name, schema in schemas_of(document).items()
        for field in schema.get("properties", {})
        if python_name(field) != field.replace("-", "_")
    }


def without_member(document: Document, used: set[str]) -> list[tuple[str, str, Document]]:
    """The operations that no member calls; `used` are the generated functions that members call."""
    called = {plain(name) for name in used}
    return [
        (path, method, operation)
        for path, method, operation in operations_of(document)
        if plain(operation["operationId"]) not in called or "x-member" not in operation
    ]


def lines_to_write(path: str, method: str, operation: Document, function: str) -> str:
    """The note on an operation that has no member, with what to write for it to have one."""
    body, answer = body_of(operation), answer_of(operation)
    words = {
        "id": operation["operationId"], "place": f"{method.upper()} {path}", "path": path,
        "method": method, "function": function, "verb": VERBS[method], "member": _member(path),
        "ids": "self._id, " * len(operation.get("parameters", [])),
        "body": next(references_in(body), ""),
        "answer": f"models.{next(references_in(answer))}" if answer else "None",
        "give": "return " if answer else "",
    }  # fmt: skip
    if body is None:
        words["ids"] = words["ids"].removesuffix(", ")
    code = (SETTER if body is not None else GETTER).format(**words)
    return MEMBER.format(**words, code=code)


def _member(path: str) -> str:
    """What a member for a path would be called: `/drives/{drive_id}` is `drives(id)`."""
    steps = path.strip("/").replace("-", "_").split("/")
    return ".".join(steps).replace(".{", "(").replace("}", ")") or "instance"
