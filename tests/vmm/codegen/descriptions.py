"""Descriptions to import: one of a test's own, the committed one, published ones when at hand."""

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codegen.document import Document, read_yaml
from codegen.pipeline import Project, described

ROOT = Path(__file__).parents[3]
PROJECT = Project(ROOT)
PUBLISHED = Path(os.environ.get("FIRECRACKER_DESCRIPTIONS", ROOT.parent / "shared" / "upstream"))
PROSE = "Some words that a release says about this and that must not get into the project."


# What the tests of codegen say is about this version, whichever one is committed.
REFERENCE = Path(__file__).with_name("reference.yaml")


def reference() -> dict[str, Any]:
    """The description that tests are written against, OpenAPI 3.0."""
    return read(REFERENCE)


@functools.cache
def described_reference() -> Document:
    """The reference with the overlay's texts; nobody changes it."""
    return described(PROJECT, REFERENCE)


def committed() -> dict[str, Any]:
    """The description that the client is generated from, OpenAPI 3.0."""
    return read(PROJECT.description())


def read(path: Path) -> dict[str, Any]:
    """A description of its own for each caller."""
    content: dict[str, Any] = json.loads(_as_json(path))
    return content


@functools.cache
def _as_json(path: Path) -> str:
    return json.dumps(read_yaml(path).value)


def published() -> list[Path]:
    """The releases' own files, none when there is no such folder."""
    return sorted(PUBLISHED.glob("firecracker-*.yaml"))


def swagger(version: str = "1.16.1") -> dict[str, Any]:
    """The reference as a release publishes it: Swagger 2.0, with words everywhere."""
    facts = reference()
    paths = {
        path: {method: _swagger_operation(operation) for method, operation in item.items()}
        for path, item in facts["paths"].items()
    }
    described: dict[str, Any] = json.loads(
        json.dumps({"paths": paths, "definitions": facts["components"]["schemas"]}).replace(
            "#/components/schemas/", "#/definitions/"
        )
    )
    for schema in described["definitions"].values():
        schema["description"] = PROSE
        for member in schema.get("properties", {}).values():
            member["description"] = PROSE
    return {
        "swagger": "2.0",
        "info": {
            "title": PROSE,
            "description": PROSE,
            "version": version,
            "termsOfService": "",
            "contact": {"email": "somebody@example.com"},
            "license": {"name": "Apache 2.0", "url": "https://example.com/license"},
        },
        "host": "localhost",
        "basePath": "/",
        "schemes": ["http"],
        "consumes": ["application/json"],
        "produces": ["application/json"],
        **described,
    }


def _swagger_operation(facts: dict[str, Any]) -> dict[str, Any]:
    operation = {"summary": PROSE, "operationId": facts["operationId"]}
    parameters = [
        {"name": found["name"], "in": "path", "required": True, "type": "string"}
        for found in facts.get("parameters", [])
    ]
    if "requestBody" in facts:
        body = facts["requestBody"]
        schema = body["content"]["application/json"]["schema"]
        parameters.append(
            {"name": "body", "in": "body", "required": body["required"], "schema": schema}
        )
    responses: dict[str, Any] = {}
    for status, found in facts["responses"].items():
        responses[status] = {"description": PROSE}
        if "content" in found:
            responses[status]["schema"] = found["content"]["application/json"]["schema"]
    return {**operation, "parameters": parameters, "responses": responses}


def write(document: dict[str, Any], folder: Path, name: str = "description") -> Path:
    """The document in a file, as JSON, which is YAML too."""
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def edited(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The published form of the reference with one thing changed."""
    document = swagger()
    change(document)
    return document
