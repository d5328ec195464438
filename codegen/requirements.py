"""The requirements that a repaired description must meet for the generation of a client.

Each function is one rule and raises `Unusable` with the place and the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

from pydantic_core import SchemaError, SchemaValidator, core_schema

from codegen.document import (
    CORRECT,
    TARGET,
    TEACH,
    Document,
    Unusable,
    answer_of,
    body_of,
    operations_of,
    references_in,
    schemas_of,
)
from codegen.fixups import schemas_and_members
from codegen.schemas import plain

# No machine boots without these calls: every monitor since 1.7 has them.
CORE = {
    "describeInstance": "GET /",
    "createSyncAction": "PUT /actions",
    "putGuestBootSource": "PUT /boot-source",
    "putGuestDriveByID": "PUT /drives/{drive_id}",
    "getMachineConfiguration": "GET /machine-config",
    "putMachineConfiguration": "PUT /machine-config",
    "patchMachineConfiguration": "PATCH /machine-config",
    "getFirecrackerVersion": "GET /version",
    "patchVm": "PATCH /vm",
    "getExportVmConfig": "GET /vm/config",
}

# Names that the templates import into the modules of the models.
IN_MODELS = {
    "Annotated", "AnsweredAs", "Any", "ApiDocument", "ApiModel", "ClassVar", "Field", "HostPath",
    "InMebibytes", "Items", "Json", "JsonObject", "Literal", "Mapping", "NotRequired", "Operation",
    "PartlySupported", "PathLike", "Sequence", "TYPE_CHECKING", "TypeAlias", "TypedDict",
    "Unsupported",
}  # fmt: skip
# Names that they import into the module of the operations, and arguments of every operation.
IN_OPERATIONS = {
    "Literal", "Operation", "annotations", "bool", "cache", "int", "list", "list_of", "models",
    "no_answer", "quote", "self", "str", "with_query",
}  # fmt: skip
BODY = "body"
PLAIN = ("string", "integer", "number", "boolean")
SCHEMAS = TARGET.rstrip("/")
RENAME = "rename it in a copy of the description"


def require_generable(document: Document, core: Mapping[str, str]) -> None:
    """Check all rules below that only need the description."""
    require_core(document, core)
    require_order(schemas_of(document))
    require_free_names(schemas_of(document))
    require_models(schemas_of(document))
    require_patterns(document)
    for path, method, operation in operations_of(document):
        place = f"#/paths/{path.replace('/', '~1')}/{method}"
        require_one_answer(operation, place)
        require_object_bodies(document, operation, place)
        require_free_parameters(operation, place)


def require_core(document: Document, core: Mapping[str, str]) -> None:
    """The description is that of a monitor: it has the calls that every monitor has."""
    found = {
        operation["operationId"]: f"{method.upper()} {path}"
        for path, method, operation in operations_of(document)
    }
    lacking = [f"{place} ({name})" for name, place in core.items() if found.get(name) != place]
    if lacking:
        raise Unusable(
            f"this does not describe a Firecracker monitor: it lacks {', '.join(lacking)}",
            "#/paths",
            CORRECT,
        )


def require_order(schemas: Document) -> None:
    """The modules of the models import each other, which does not work in a circle."""
    try:
        TopologicalSorter({n: list(references_in(schemas[n])) for n in schemas}).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise Unusable(f"a circle of references, {circle}", SCHEMAS, TEACH) from error


def require_free_names(schemas: Document) -> None:
    """A model may not have the name of an import of its module, or of another's arguments."""
    for name in schemas:
        if name in IN_MODELS or name.removesuffix("Fields") in schemas.keys() - {name}:
            raise Unusable("generated code has this name already", TARGET + name, RENAME)


def require_models(schemas: Document) -> None:
    """A named schema becomes a model or an alias of values; others would lose their limits."""
    for name, schema in schemas.items():
        if schema.get("nullable") or (schema.get("type") != "object" and "enum" not in schema):
            raise Unusable("neither an object nor an enum", TARGET + name, TEACH)


def require_patterns(document: Document) -> None:
    """pydantic can check every pattern: its engine has no look-around and no back-references."""
    for place, schema in schemas_and_members(document):
        if "pattern" in schema:
            try:
                SchemaValidator(core_schema.str_schema(pattern=schema["pattern"]))
            except SchemaError as error:
                said = " ".join(str(error).split())
                what = f"pydantic cannot check this pattern: {said}"
                raise Unusable(
                    what, TARGET + place.replace(".", "/properties/"), CORRECT
                ) from error


def require_one_answer(operation: Document, place: str) -> None:
    """An operation has one 2xx status."""
    successes = [status for status in operation["responses"] if status.startswith("2")]
    if len(successes) != 1:
        raise Unusable(f"expected one 2xx status, found {successes}", place, CORRECT)


def require_object_bodies(document: Document, operation: Document, place: str) -> None:
    """A request body is a model, a response body a model or a list."""
    answer = answer_of(operation)
    element = answer.get("items") if answer else None
    answered = None if element and element.get("type") in PLAIN else element or answer
    for schema in (body_of(operation), answered):
        if schema is None:
            continue
        if "$ref" not in schema:
            raise Unusable("a body that is no named schema cannot be generated", place, TEACH)
        name = next(references_in(schema))
        if schemas_of(document)[name]["type"] != "object":
            raise Unusable(f"a body that is no object ({name}) cannot be generated", place, TEACH)


def require_free_parameters(operation: Document, place: str) -> None:
    """An operation and its parameters hide no name that generated code needs."""
    parameters = [parameter["name"] for parameter in operation.get("parameters", [])]
    taken = {plain(name) for name in (*IN_OPERATIONS, BODY)}
    for name in (operation["operationId"], *parameters):
        if plain(name) in taken:
            raise Unusable(f"generated code has the name {name!r} already", place, RENAME)


def require_unclaimed(names: Iterable[str], written: Path) -> None:
    """No model has a name that the package exports itself."""
    tree = ast.parse((written / "__init__.py").read_text(encoding="utf-8"))
    lists = (node.value for node in tree.body if _assigns(node, "__all__"))
    exported = {name for found in lists for name in ast.literal_eval(found)}
    for name in sorted(exported & set(names)):
        raise Unusable("generated_vmm has this name already", TARGET + name, RENAME)


def _assigns(node: ast.stmt, name: str) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
