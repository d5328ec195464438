"""A monitor release's own description (Swagger 2.0, OpenAPI 3.0 or 3.1), reduced to facts.

The result is OpenAPI 3.0: paths, parameters, schemas and bounds, without the original's prose. An
unknown construct stops the import; only prose is dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from codegen.document import (
    JSON,
    METHODS,
    TEACH,
    Document,
    Node,
    located,
    operations_of,
    read_yaml,
)
from codegen.schemas import PROSE, facts_of_schema, repeated

TITLE = "HTTP API of the Firecracker monitor"
# The names in RFC 9110 of the statuses that descriptions have used; Python's own table changes.
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
PARAMETER = ("type", "enum", "default", "format")
PARAMETER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
QUERY = ("string", "integer", "boolean")
SERVER = re.compile(r"(?:https?://[^/]+)?(/.*|)")
BASE = re.compile(r"(/[A-Za-z0-9_.-]+)*")
PATH = re.compile(r"/|(/[A-Za-z0-9_.-]+|/\{[A-Za-z][A-Za-z0-9_]*\})+")
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?")


def import_spec(path: Path) -> Document:
    """The facts of the description in a file. Raises `Unusable` with the file, place and reason."""
    with located(path):
        return facts_of_description(read_yaml(path))


def facts_of_description(root: Node) -> Document:
    """The facts of a parsed description. Raises `Unusable` with the place and reason."""
    dialect = _dialect(root)
    members = root.only(*(ROOT_SWAGGER if dialect == "swagger" else ROOT_OPENAPI))
    for needed in ("info", "paths"):
        if needed not in members:
            root.refuse(f"'{needed}' is missing")
    _require_json(members)
    schemas = _schemas(members, dialect)
    for name in repeated(schemas):
        schemas[name].refuse("another schema would get the same name in Python")
    known = {node.named(NAME, name): node for name, node in schemas.items()}
    document: Document = {
        "openapi": "3.0.3",
        "info": {"title": TITLE, "version": _version(members["info"])},
        **({"servers": [{"url": base}]} if (base := _base_path(members)) else {}),
        "paths": {
            path: _facts_of_path(path, item, known)
            for path, item in members["paths"].members().items()
        },
        "components": {
            "schemas": {
                name: facts_of_schema(node, known)
                for name, node in schemas.items()
                if not node.is_array()
            }
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
    root.refuse("neither Swagger 2.0 nor OpenAPI 3.0 or 3.1", TEACH)


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


def _facts_of_path(path: str, item: Node, known: Mapping[str, Node]) -> Document:
    if not PATH.fullmatch(path):
        item.refuse(f"path {path!r} has unsupported characters", TEACH)
    operations = item.only(*METHODS, "summary", "description", "parameters")
    shared = operations["parameters"].elements() if "parameters" in operations else []
    return {
        method: _facts_of_operation(path, operations[method], shared, known)
        for method in METHODS
        if method in operations
    }


def _facts_of_operation(
    path: str, node: Node, shared: list[Node], known: Mapping[str, Node]
) -> Document:
    """The facts of one call; `shared` are the parameters of all calls of the path."""
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
    own = members["parameters"].elements() if "parameters" in members else []
    parameters = {_name_and_location(found): found for found in (*shared, *own)}
    facts |= _facts_of_parameters(path, node, list(parameters.values()))
    facts |= _facts_of_body(node, members, list(parameters.values()), known)
    facts["responses"] = _responses(members["responses"], known)
    return facts


def _facts_of_parameters(path: str, node: Node, parameters: list[Node]) -> Document:
    """The parameters of the path and of the query."""
    found = [_parameter(each) for each in parameters if _location(each) != "body"]
    in_path = [each["name"] for each in found if each["in"] == "path"]
    if sorted(in_path) != sorted(re.findall(r"{([^}]+)}", path)):
        node.refuse("the parameters do not match those of the path")
    for name in repeated(each["name"] for each in found):
        node.refuse(f"another parameter would get the same name as {name!r} in Python", TEACH)
    return {"parameters": found} if found else {}


def _facts_of_body(
    node: Node, members: dict[str, Node], parameters: list[Node], known: Mapping[str, Node]
) -> Document:
    """The request body; Swagger 2.0 lists it among the parameters."""
    bodies = [found for found in parameters if _location(found) == "body"]
    if len(bodies) > 1 or (bodies and "requestBody" in members):
        node.refuse("more than one body")
    if bodies:
        return {"requestBody": _body_parameter(bodies[0], known)}
    if "requestBody" in members:
        return {"requestBody": _request_body(members["requestBody"], known)}
    return {}


def _location(parameter: Node) -> str:
    members = parameter.members()
    location = members["in"].text() if "in" in members else ""
    if location not in ("path", "query", "body"):
        parameter.refuse(f"a parameter in {location or 'no place'!r} is not known", TEACH)
    return location


def _name_and_location(parameter: Node) -> tuple[str, str]:
    """The identity of a parameter: one of an operation replaces the same one of its path."""
    location, members = _location(parameter), parameter.members()
    return location, members["name"].text() if location != "body" and "name" in members else ""


def _parameter(node: Node) -> Document:
    """A parameter in the path, which is text, or in the query; without a schema in Swagger 2.0."""
    members = node.only(
        *PROSE, "name", "in", "required", "schema", "type", "enum", "default", "format"
    )
    if "name" not in members:
        node.refuse("'name' is missing")
    name, location = members["name"].text(), members["in"].text()
    inline = {key: members[key].value for key in PARAMETER if key in members}
    schema = facts_of_schema(members.get("schema", Node(inline, node.place)), {})
    required = "required" in members and members["required"].flag()
    if location == "path":
        if not required:
            node.refuse("a path parameter has to be required")
        if schema != {"type": "string"}:
            node.refuse("a path parameter has to be a plain string", TEACH)
    elif schema["type"] not in QUERY or set(schema) - {"type", "enum", "default"}:
        node.refuse("a query parameter has to be a plain value", TEACH)
    members["name"].named(PARAMETER_NAME, name)
    return {"name": name, "in": location, "required": required, "schema": schema}


def _body_parameter(node: Node, known: Mapping[str, Node]) -> Document:
    members = node.only(*PROSE, "name", "in", "required", "schema")
    if "schema" not in members:
        node.refuse("'schema' is missing")
    required = "required" in members and members["required"].flag()
    return _json_body(facts_of_schema(members["schema"], known), required=required)


def _request_body(node: Node, known: Mapping[str, Node]) -> Document:
    members = node.only("description", "required", "content")
    required = "required" in members and members["required"].flag()
    return _json_body(_json_schema(node, members, known), required=required)


def _json_body(schema: Document, *, required: bool) -> Document:
    return {"required": required, "content": {JSON: {"schema": schema}}}


def _responses(node: Node, known: Mapping[str, Node]) -> Document:
    return {status: _response(status, found, known) for status, found in node.members().items()}


def _response(status: str, node: Node, known: Mapping[str, Node]) -> Document:
    members = node.only("description", "schema", "content", "examples")
    facts: Document = {"description": _phrase(status, node)}
    if "schema" in members:
        schema = facts_of_schema(members["schema"], known)
        facts["content"] = {JSON: {"schema": schema}}
    elif "content" in members:
        facts["content"] = {JSON: {"schema": _json_schema(node, members, known)}}
    return facts


def _phrase(status: str, node: Node) -> str:
    """The required text of a response: HTTP's name of its status."""
    if status not in PHRASES and not re.fullmatch(r"[1-5]\d\d", status):
        node.refuse(f"status {status!r} is not known", TEACH)
    return PHRASES.get(status, f"Status {status}")


def _json_schema(node: Node, members: dict[str, Node], known: Mapping[str, Node]) -> Document:
    media = members["content"].only(JSON) if "content" in members else {}
    found = media[JSON].only("schema", "example", "examples") if media else {}
    if "schema" not in found:
        node.refuse(f"a body needs a schema for {JSON}")
    return facts_of_schema(found["schema"], known)


def _require_json(members: dict[str, Node]) -> None:
    for node in (members[key] for key in ("consumes", "produces") if key in members):
        if [found.text() for found in node.elements()] != [JSON]:
            node.refuse(f"only {JSON} is known", TEACH)


def _base_path(members: dict[str, Node]) -> str:
    """The prefix of every path, without a slash at its end; usually empty."""
    found = [members["basePath"]] if "basePath" in members else []
    for server in members["servers"].elements() if "servers" in members else []:
        found.append(server.only("url", "description")["url"])
    base = ""
    for node in found[:1]:
        url = SERVER.fullmatch(node.text())
        base = url[1].rstrip("/") if url else "?"
        if not BASE.fullmatch(base):
            node.refuse(f"{node.text()!r} is an unsupported base path", TEACH)
    return base
