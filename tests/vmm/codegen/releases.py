"""The shapes that other releases are known to have, made by editing the reference in memory."""

from __future__ import annotations

from typing import Any

from codegen.overlay import STEP, is_older, later_than, read_overlay
from tests.vmm.codegen.descriptions import PROJECT, committed, reference, swagger


def openapi_3_1() -> dict[str, Any]:
    """The reference in OpenAPI 3.1's own terms for what may be null."""
    facts = reference()
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


def before(version: str) -> dict[str, Any]:
    """The committed description without all that came after a version, as the overlay knows it.

    So there is an older release wherever the project is, without the file of one. A description
    that is older itself stays as it is.
    """
    document = committed()
    if is_older(document["info"]["version"], version):
        return document
    document["info"]["version"] = version
    for action in later_than(version, read_overlay(PROJECT.overlay)):
        if action.target.startswith("$.paths") and "operationId" not in (action.update or {}):
            continue  # words about a call, or a call that no release describes
        *steps, last = [dotted or quoted for dotted, quoted in STEP.findall(action.target)]
        found = document
        for step in steps:
            found = found.get(step, {})
        found.pop(last, None)
    document["paths"] = {path: item for path, item in document["paths"].items() if item}
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


def unlike_any_release() -> dict[str, Any]:
    """The reference, and everything that the importer knows and no release has used."""
    document = reference() | {"openapi": "3.1.0", "info": {"title": "x", "version": "9.0.0"}}
    document["components"]["schemas"] |= {
        "Thing": {"type": "object", "required": ["needed", "names"], "properties": _members()},
        "Empty": {"type": "object", "additionalProperties": False},
    }
    document["components"]["schemas"] |= _several_in_one()
    success = {"204": {"description": "x"}}
    ids = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("a", "id")
    ]
    put = {"operationId": "putThing", "parameters": ids, "responses": success}
    put["requestBody"] = {"required": True, "content": _content("Thing")}
    found = {"200": {"description": "x", "content": _content("Thing")}}
    empty = {"content": _content("Empty")}
    document["paths"] |= {
        "/things/{a}/of/{id}": {"put": put},
        "/things": {
            "get": {"operationId": "getThing", "responses": found},
            "patch": {"operationId": "patchEmpty", "requestBody": empty, "responses": success},
        },
        "/parts/{id}": _shared_parameters(success),
        "/parts": {"get": {"operationId": "listParts", "responses": _answers("Parts")}},
        "/names": {"get": {"operationId": "listNames", "responses": _answers("Names")}},
    }
    document["servers"] = [{"url": "http://localhost/api/v1"}]
    return document


def _several_in_one() -> dict[str, Any]:
    """Objects made of several, lists with a name, numbers to choose from, elements once each."""
    base = {
        "id": {"type": "string"},
        "step": {"type": "integer", "enum": [1, 2, 4]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    }
    own = {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}}
    reference_to = "#/components/schemas/"
    return {
        "Base": {"type": "object", "required": ["id"], "properties": base},
        "Part": {"allOf": [{"$ref": f"{reference_to}Base"}, own, {"description": "x"}]},
        "Parts": {"type": "array", "items": {"$ref": f"{reference_to}Part"}},
        "Names": {"type": "array", "items": {"type": "string"}},
    }


def _shared_parameters(success: dict[str, Any]) -> dict[str, Any]:
    """A path whose parameters are those of all its calls, and parameters behind it."""
    shared = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    query = {
        "page-size": {"type": "integer", "default": 10},
        "deep": {"type": "boolean"},
        "order": {"type": "string", "enum": ["up", "down"]},
    }
    parameters = [{"name": name, "in": "query", "schema": query[name]} for name in query]
    required = {"name": "force", "in": "query", "required": True, "schema": {"type": "boolean"}}
    body = {"required": True, "content": _content("Part")}
    return {
        "parameters": [shared],
        "get": {"operationId": "getPart", "parameters": parameters, "responses": _answers("Part")},
        "put": {
            "operationId": "putPart",
            "parameters": [required],
            "requestBody": body,
            "responses": success,
        },
    }


def _answers(name: str) -> dict[str, Any]:
    return {"200": {"description": "x", "content": _content(name)}}


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _members() -> dict[str, Any]:
    """A member of every shape."""
    text = {"type": "string"}
    return {
        "class": text,
        "copy": text,
        "model_dump": text,
        "to_json": text,
        "type": text,
        "kebab-case": {"type": "integer", "minimum": -1, "maximum": 2**40},
        "huge": {"type": "integer", "minimum": -(2**63) - 1, "maximum": 2**64 + 1},
        "whole": {"type": "integer", "minimum": 0.5, "maximum": 10.0},
        "share": {"type": "number", "minimum": 0.5, "maximum": 1.5},
        "code": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": r'^[a-z"\d]+$'},
        "when": {"type": "string", "format": "date-time"},
        "names": {"type": "array", "items": text, "minItems": 1, "maxItems": 3},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "modes": {"type": "array", "items": {"type": "string", "enum": ["a b", "2M", "None"]}},
        "inner": {"type": "object", "properties": {"deep": {"type": "object"}}},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"id": text}}},
        "notes": {"type": "array", "items": {"type": "object"}},
        "by_name": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"id": text}},
        },
        "lists": {"type": "object", "additionalProperties": {"type": "array", "items": text}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "needed": {"type": ["string", "null"]},
        "absent": {"oneOf": [{"$ref": "#/components/schemas/Empty"}, {"type": "null"}]},
    }
