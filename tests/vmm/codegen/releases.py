"""The shapes that other releases are known to have, made by editing the reference in memory."""

from __future__ import annotations

from typing import Any

from codegen.releases import has, is_older, read_releases
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


# All that have been published since the description has its place, oldest first.
RELEASES = (
    *("1.7.0", "1.8.0", "1.9.0", "1.9.1", "1.10.0", "1.10.1", "1.11.0", "1.12.0", "1.12.1"),
    *("1.13.0", "1.13.1", "1.13.2", "1.14.0", "1.14.1", "1.14.2", "1.14.3", "1.14.4"),
    *("1.15.0", "1.15.1", "1.16.0", "1.16.1"),
)
# What a release added; a patch of 1.14 and one of 1.15 added the same field.
ADDED = {
    ("1.16.0",): (
        *("paths /pmem/{id} patch", "definitions PartialPmem", "definitions VsockOverride"),
        *("SnapshotLoadParams vsock_override", "NetworkInterface mtu", "Pmem rate_limiter"),
        "SerialDevice rate_limiter",
    ),
    ("1.14.4", "-1.15.0", "1.15.1"): ("SnapshotLoadParams clock_realtime",),
    ("1.14.0",): (
        *("paths /pmem/{id}", "paths /serial", "paths /hotplug/memory"),
        *(f"paths /balloon/hinting/{step}" for step in ("start", "status", "stop")),
        *("definitions Pmem", "definitions SerialDevice", "definitions BalloonStartCmd"),
        *("definitions BalloonHintingStatus", "definitions MemoryHotplugConfig"),
        *("definitions MemoryHotplugSizeUpdate", "definitions MemoryHotplugStatus"),
        *("definitions CpuidLeafModifier", "definitions CpuidRegisterModifier"),
        *("definitions MsrModifier", "definitions ArmRegisterModifier"),
        *("definitions VcpuFeatures", "FullVmConfiguration pmem"),
        *("FullVmConfiguration memory-hotplug", "Balloon free_page_hinting"),
        *("Balloon free_page_reporting", "BalloonStats oom_kill", "BalloonStats alloc_stall"),
        *("BalloonStats async_scan", "BalloonStats direct_scan"),
        *("BalloonStats async_reclaim", "BalloonStats direct_reclaim"),
    ),
    ("1.13.0",): ("SnapshotLoadParams track_dirty_pages", "MmdsConfig imds_compat"),
    ("1.12.0",): ("definitions NetworkOverride", "SnapshotLoadParams network_overrides"),
    ("1.11.0",): ("CpuConfig kvm_capabilities", "CpuConfig vcpu_features"),
    ("1.10.0",): ("FullVmConfiguration cpu-config", "FullVmConfiguration entropy"),
}


def release(version: str) -> dict[str, Any]:
    """A release's description with its own faults, as far as the client depends on them."""
    document = swagger(version)
    schemas = document["definitions"]
    if is_older(version, "1.16.0") and not is_older(version, "1.14.0"):
        for step in ("start", "stop"):
            responses = document["paths"][f"/balloon/hinting/{step}"]["patch"]["responses"]
            responses["200"] = responses.pop("204")
    if is_older(version, "1.14.0"):
        del schemas["MmdsContentsObject"]["additionalProperties"]
        del document["paths"]["/mmds"]["get"]["responses"]["200"]["schema"]["additionalProperties"]
        untyped = {name: {"type": "object"} for name in schemas["CpuConfig"]["properties"]}
        schemas["CpuConfig"]["properties"] = untyped
    for since, places in ADDED.items():
        for place in places if not has(since, version) else ():
            _remove(document, *place.split())
    if version == "1.13.0":
        members = schemas["MmdsConfig"]["properties"]
        members["imds_comat"] = members.pop("imds_compat")
    if is_older(version, "1.11.0"):
        schemas["CpuConfig"]["type"] = "string"
    return document


def _remove(document: dict[str, Any], *steps: str) -> None:
    *parents, name = steps
    found = document if parents[0] in document else document["definitions"]
    for step in parents:
        found = found.get(step, {})
    found.get("properties", found).pop(name, None)


def before(version: str) -> dict[str, Any]:
    """The committed description without all that came after a version, as the table knows it.

    So there is an older release wherever the project is, without the file of one. A description
    that is older itself stays as it is.
    """
    document = committed()
    if is_older(document["info"]["version"], version):
        return document
    document["info"]["version"] = version
    schemas = document["components"]["schemas"]
    for place, since in read_releases(PROJECT.releases).since.items():
        name, _, field = place.partition(" " if " " in place else ".")
        if has(since, version):
            continue
        if " " in place:
            document["paths"].get(field, {}).pop(name.lower(), None)
        elif field:
            schemas.get(name, {}).get("properties", {}).pop(field, None)
        else:
            schemas.pop(name, None)
    document["paths"] = {path: item for path, item in document["paths"].items() if item}
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
