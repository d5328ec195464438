"""Descriptions to generate from: the committed one, published files when they are at hand, and the
shapes that other releases are known to have, made by editing the committed one in memory."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codegen.document import METHODS, read_yaml
from codegen.pipeline import Project

ROOT = Path(__file__).parents[3]
PROJECT = Project(ROOT)
PUBLISHED = Path(os.environ.get("FIRECRACKER_DESCRIPTIONS", ROOT.parent / "shared" / "upstream"))
PROSE = "Some words that a release says about this and that must not get into the project."


def committed() -> dict[str, Any]:
    """The committed description, OpenAPI 3.0."""
    content = read_yaml(PROJECT.description()).value
    assert isinstance(content, dict)
    return content


def published() -> list[Path]:
    """The releases' own files, none when there is no such folder."""
    return sorted(PUBLISHED.glob("firecracker-*.yaml"))


def swagger(version: str = "1.16.1") -> dict[str, Any]:
    """The committed description as a release publishes it: Swagger 2.0, with words everywhere."""
    facts = committed()
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


def openapi_3_1() -> dict[str, Any]:
    """The committed description in OpenAPI 3.1's own terms for what may be null."""
    facts = committed()
    facts["openapi"] = "3.1.0"
    schemas = facts["components"]["schemas"]
    schemas["Drive"]["properties"]["partuuid"] = {"type": ["string", "null"]}
    schemas["Drive"]["properties"]["rate_limiter"] = {
        "oneOf": [{"$ref": "#/components/schemas/RateLimiter"}, {"type": "null"}]
    }
    return facts


def release_1_17() -> dict[str, Any]:
    """What the next release is known to add: a property named `properties`, a wider enum."""
    document = swagger("1.17.0")
    schemas = document["definitions"]
    schemas["MachineConfiguration"]["properties"]["huge_pages"] |= {
        "enum": ["None", "Transparent", "2M"],
        "default": "None",
    }
    schemas["Metrics"]["properties"] |= {
        "emit_id": {"type": "boolean", "default": False},
        "properties": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    schemas["SnapshotLoadParams"]["properties"]["huge_pages"] = {
        "type": "string",
        "enum": ["Snapshot", "None", "Transparent", "2M"],
    }
    for member in schemas["MemoryHotplugConfig"]["properties"].values():
        member["maximum"] = 4294967295
    return document


def release_1_14() -> dict[str, Any]:
    """1.14.0: the wrong success status for hinting, and nothing of 1.16."""
    document = swagger("1.14.0")
    del document["paths"]["/pmem/{id}"]["patch"]
    for name in ("PartialPmem", "VsockOverride"):
        del document["definitions"][name]
    del document["definitions"]["SnapshotLoadParams"]["properties"]["vsock_override"]
    del document["definitions"]["NetworkInterface"]["properties"]["mtu"]
    for step in ("start", "stop"):
        responses = document["paths"][f"/balloon/hinting/{step}"]["patch"]["responses"]
        responses["200"] = responses.pop("204")
    return document


def release_1_13() -> dict[str, Any]:
    """1.13.0: a misspelt field, untyped CPU templates and metadata, 29 operations."""
    document = release_1_14()
    document["info"]["version"] = "1.13.0"
    for path in ("/pmem/{id}", "/serial", "/hotplug/memory", "/balloon/hinting/start",
                 "/balloon/hinting/status", "/balloon/hinting/stop"):  # fmt: skip
        del document["paths"][path]
    schemas = document["definitions"]
    for name in ("Pmem", "SerialDevice", "BalloonStartCmd", "BalloonHintingStatus",
                 "MemoryHotplugConfig", "MemoryHotplugSizeUpdate", "MemoryHotplugStatus",
                 "CpuidLeafModifier", "CpuidRegisterModifier", "MsrModifier",
                 "ArmRegisterModifier", "VcpuFeatures"):  # fmt: skip
        del schemas[name]
    for name in ("pmem", "memory-hotplug"):
        del schemas["FullVmConfiguration"]["properties"][name]
    mmds = schemas["MmdsConfig"]["properties"]
    mmds["imds_comat"] = mmds.pop("imds_compat")
    del schemas["MmdsContentsObject"]["additionalProperties"]
    del document["paths"]["/mmds"]["get"]["responses"]["200"]["schema"]["additionalProperties"]
    schemas["CpuConfig"]["properties"] = {
        name: {"type": "object"} for name in schemas["CpuConfig"]["properties"]
    }
    return document


def release_1_7() -> dict[str, Any]:
    """1.7.0: a CPU template that is a string with members, no overrides."""
    document = release_1_13()
    document["info"]["version"] = "1.7.0"
    schemas = document["definitions"]
    del schemas["NetworkOverride"], schemas["MmdsConfig"]["properties"]["imds_comat"]
    for name in ("network_overrides", "track_dirty_pages", "clock_realtime"):
        del schemas["SnapshotLoadParams"]["properties"][name]
    schemas["CpuConfig"]["type"] = "string"
    for name in ("cpu-config", "entropy"):
        del schemas["FullVmConfiguration"]["properties"][name]
    return document


SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "openapi_3_0": committed,
    "openapi_3_1": openapi_3_1,
    "swagger": swagger,
    "release_1_7": release_1_7,
    "release_1_13": release_1_13,
    "release_1_14": release_1_14,
    "release_1_17": release_1_17,
}


def write(document: dict[str, Any], folder: Path, name: str = "description") -> Path:
    """The document in a file, as JSON, which is YAML too."""
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def spec_file(shape: str, folder: Path) -> Path:
    """The file of a shape: one of `SHAPES`, or the name of a published file."""
    found = [path for path in published() if path.stem == shape]
    return found[0] if found else write(SHAPES[shape](), folder, shape)


def all_shapes() -> list[str]:
    """Every shape that there is something to generate from."""
    return [*SHAPES, *(path.stem for path in published())]


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every operation of a document by its operationId."""
    return {
        item[method]["operationId"]: item[method]
        for item in document["paths"].values()
        for method in METHODS
        if method in item
    }


def edited(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The published form of the committed description with one thing changed."""
    document = copy.deepcopy(swagger())
    change(document)
    return document
