"""A monitor release's own description (Swagger 2.0, OpenAPI 3.0 or 3.1), reduced to facts.

What comes out is OpenAPI 3.0: paths, parameters, schemas and bounds, without one sentence of the
original. Whatever is not known here stops the import; nothing is dropped in silence but prose.
"""

from __future__ import annotations

import re
from pathlib import Path

from codegen.document import JSON, METHODS, Document, Node, Unusable, operations_of, read_yaml
from codegen.schemas import PROSE, facts_of_schema, repeated

TITLE = "HTTP API of the Firecracker monitor"
# What RFC 9110 calls the statuses that descriptions have used; Python's own table changes.
PHRASES = {
    "200": "OK", "204": "No Content", "400": "Bad Request", "404": "Not Found",
    "413": "Content Too Large", "500": "Internal Server Error", "default": "Any other status",
}  # fmt: skip
WORDS = ("summary", "description", "externalDocs")
ROOT_SWAGGER = (
    "swagger", "info", "host", "basePath", "schemes", "consumes", "produces",
    "paths", "definitions", "tags", "externalDocs",
)  # fmt: skip
ROOT_OPENAPI = ("openapi", "info", "servers", "paths", "components", "tags", "externalDocs")
INFO = ("title", "description", "summary", "version", "termsOfService", "contact", "license")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
TAG = re.compile(r"[A-Za-z][A-Za-z0-9 _-]*")
SERVER = re.compile(r"/|https?://[^/]+/?")
PATH = re.compile(r"/|(/[A-Za-z0-9_.-]+|/\{[A-Za-z][A-Za-z0-9_]*\})+")
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?")


def import_spec(path: Path) -> Document:
    """The facts of the description in a file. Raises `Unusable` with the file, place and reason."""
    try:
        return facts_of_description(read_yaml(path))
    except Unusable as error:
        raise Unusable(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def facts_of_description(root: Node) -> Document:
    """The facts of a description that was read. Raises `Unusable` with the place and reason."""
    dialect = _dialect(root)
    members = root.only(*(ROOT_SWAGGER if dialect == "swagger" else ROOT_OPENAPI))
    for needed in ("info", "paths"):
        if needed not in members:
            root.refuse(f"'{needed}' is missing")
    _require_json(members)
    _require_root_path(members)
    schemas = _schemas(members, dialect)
    for name in repeated(schemas):
        schemas[name].refuse("another schema would get the same name in Python")
    known = frozenset(node.named(NAME, name) for name, node in schemas.items())
    document: Document = {
        "openapi": "3.0.3",
        "info": {"title": TITLE, "version": _version(members["info"])},
        "paths": {
            path: _facts_of_path(path, item, known)
            for path, item in members["paths"].members().items()
        },
        "components": {
            "schemas": {name: facts_of_schema(node, known) for name, node in schemas.items()}
        },
    }
    _require_distinct_names(document, members["paths"])
    return document


def _require_distinct_names(document: Document, paths: Node) -> None:
    names = [operation["operationId"] for _, _, operation in operations_of(document)]
    for name in repeated(names):
        paths.refuse(f"'{name}' is the operationId of more than one operation")


def _dialect(root: Node) -> str:
    members = root.members()
    if "swagger" in members and str(members["swagger"].value) == "2.0":
        return "swagger"
    if "openapi" in members and re.fullmatch(r"3\.[01]\.\d+", str(members["openapi"].value)):
        return "openapi"
    root.refuse("neither Swagger 2.0 nor OpenAPI 3.0 or 3.1")


def _schemas(members: dict[str, Node], dialect: str) -> dict[str, Node]:
    if dialect == "swagger":
        return members["definitions"].members() if "definitions" in members else {}
    components = members["components"].only("schemas") if "components" in members else {}
    return components["schemas"].members() if "schemas" in components else {}


def _version(info: Node) -> str:
    members = info.only(*INFO)
    version = members["version"].text() if "version" in members else ""
    if not VERSION.fullmatch(version):
        info.refuse(f"version {version!r} is not of the form 1.16.1")
    return version


def _facts_of_path(path: str, item: Node, known: frozenset[str]) -> Document:
    if not PATH.fullmatch(path):
        item.refuse(f"path {path!r} has characters that paths here do not have")
    operations = item.only(*METHODS, "summary", "description")
    return {
        method: _facts_of_operation(path, operations[method], known)
        for method in METHODS
        if method in operations
    }


def _facts_of_operation(path: str, node: Node, known: frozenset[str]) -> Document:
    members = node.only(
        *WORDS, "tags", "operationId", "parameters", "requestBody", "responses", "deprecated",
        "consumes", "produces",
    )  # fmt: skip
    for needed in ("operationId", "responses"):
        if needed not in members:
            node.refuse(f"'{needed}' is missing")
    _require_json(members)
    name = members["operationId"]
    facts: Document = {"operationId": name.named(NAME, name.text())}
    if "tags" in members:
        facts["tags"] = [tag.named(TAG, tag.text()) for tag in members["tags"].elements()]
    if "deprecated" in members:
        facts["deprecated"] = members["deprecated"].flag()
    facts |= _facts_of_parameters(path, node, members, known)
    facts["responses"] = _responses(members["responses"], known)
    return facts


def _facts_of_parameters(
    path: str, node: Node, members: dict[str, Node], known: frozenset[str]
) -> Document:
    """What the path and the body hold; Swagger 2.0 lists the body among the parameters."""
    facts: Document = {}
    parameters = members["parameters"].elements() if "parameters" in members else []
    bodies = [found for found in parameters if _location(found) == "body"]
    in_path = [_path_parameter(found) for found in parameters if _location(found) == "path"]
    if sorted(found["name"] for found in in_path) != sorted(re.findall(r"{([^}]+)}", path)):
        node.refuse("the parameters do not match those of the path")
    if in_path:
        facts["parameters"] = in_path
    if len(bodies) > 1 or (bodies and "requestBody" in members):
        node.refuse("more than one body")
    if bodies:
        facts["requestBody"] = _body_parameter(bodies[0], known)
    if "requestBody" in members:
        facts["requestBody"] = _request_body(members["requestBody"], known)
    return facts


def _location(parameter: Node) -> str:
    members = parameter.members()
    location = members["in"].text() if "in" in members else ""
    if location not in ("path", "body"):
        parameter.refuse(f"a parameter in {location or 'no place'!r} is not known")
    return location


def _path_parameter(node: Node) -> Document:
    members = node.only(*PROSE, "name", "in", "required", "type", "schema")
    if "required" not in members or not members["required"].flag():
        node.refuse("a path parameter has to be required")
    schema = facts_of_schema(members["schema"], frozenset()) if "schema" in members else None
    kind = members["type"].text() if "type" in members else ""
    if (schema or {"type": kind}) != {"type": "string"}:
        node.refuse("a path parameter has to be a plain string")
    name = members["name"].text()
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _body_parameter(node: Node, known: frozenset[str]) -> Document:
    members = node.only(*PROSE, "name", "in", "required", "schema")
    if "schema" not in members:
        node.refuse("'schema' is missing")
    required = "required" in members and members["required"].flag()
    return _json_body(facts_of_schema(members["schema"], known), required=required)


def _request_body(node: Node, known: frozenset[str]) -> Document:
    members = node.only("description", "required", "content")
    required = "required" in members and members["required"].flag()
    return _json_body(_json_schema(node, members, known), required=required)


def _json_body(schema: Document, *, required: bool) -> Document:
    return {"required": required, "content": {JSON: {"schema": schema}}}


def _responses(node: Node, known: frozenset[str]) -> Document:
    return {status: _response(status, found, known) for status, found in node.members().items()}


def _response(status: str, node: Node, known: frozenset[str]) -> Document:
    members = node.only("description", "schema", "content", "examples")
    facts: Document = {"description": _phrase(status, node)}
    if "schema" in members:
        schema = facts_of_schema(members["schema"], known)
        facts["content"] = {JSON: {"schema": schema}}
    elif "content" in members:
        facts["content"] = {JSON: {"schema": _json_schema(node, members, known)}}
    return facts


def _phrase(status: str, node: Node) -> str:
    """OpenAPI wants a text for each response: the name that HTTP gives its status."""
    if status not in PHRASES and not re.fullmatch(r"[1-5]\d\d", status):
        node.refuse(f"status {status!r} is not known")
    return PHRASES.get(status, f"Status {status}")


def _json_schema(node: Node, members: dict[str, Node], known: frozenset[str]) -> Document:
    media = members["content"].only(JSON) if "content" in members else {}
    found = media[JSON].only("schema", "example", "examples") if media else {}
    if "schema" not in found:
        node.refuse(f"a body needs the schema of its {JSON}")
    return facts_of_schema(found["schema"], known)


def _require_json(members: dict[str, Node]) -> None:
    for node in (members[key] for key in ("consumes", "produces") if key in members):
        if [found.text() for found in node.elements()] != [JSON]:
            node.refuse(f"only {JSON} is known")


def _require_root_path(members: dict[str, Node]) -> None:
    """The paths are whole: the monitor serves them at the root of its socket."""
    if "basePath" in members and members["basePath"].text() != "/":
        members["basePath"].refuse("only the base path '/' is known")
    for server in members["servers"].elements() if "servers" in members else []:
        url = server.only("url", "description")["url"]
        if not SERVER.fullmatch(url.text()):
            url.refuse("only a server without a path is known")
