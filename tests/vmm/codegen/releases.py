"""The shapes that other releases are known to have, made by editing the reference in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from codegen.releases import has, is_older, read_releases
from tests.vmm.codegen.descriptions import (
    PROJECT,
    committed,
    published,
    read,
    reference,
    swagger,
    write,
)


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


KNOWN = read_releases(PROJECT.releases)
RELEASES = tuple(version for version in KNOWN.known if not is_older("1.16.1", version))
"""All that have been published until the reference, oldest first."""


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
    _remove_later(document)
    if version == "1.13.0":
        members = schemas["MmdsConfig"]["properties"]
        members["imds_comat"] = members.pop("imds_compat")
    if is_older(version, "1.11.0"):
        schemas["CpuConfig"]["type"] = "string"
    return document


def before(version: str) -> dict[str, Any]:
    """The committed description without all that came after a version, as the table knows it.

    So there is an older release wherever the project is, without the file of one. A description
    that is older itself stays as it is.
    """
    document = committed()
    if is_older(document["info"]["version"], version):
        return document
    document["info"]["version"] = version
    _remove_later(document)
    return document


def _remove_later(document: dict[str, Any]) -> None:
    """Removes what came after the version of a description, as the table of the project says."""
    schemas = document.get("definitions") or document["components"]["schemas"]
    for place, since in KNOWN.since.items():
        name, _, field = place.partition(" " if " " in place else ".")
        if has(since, document["info"]["version"]):
            continue
        if " " in place:
            document["paths"].get(field, {}).pop(name.lower(), None)
        elif field:
            schemas.get(name, {}).get("properties", {}).pop(field, None)
        else:
            schemas.pop(name, None)
    document["paths"] = {path: item for path, item in document["paths"].items() if item}


def unlike_any_release() -> dict[str, Any]:
    """The reference, and everything that the importer knows and no release has used."""
    document, more = reference(), read(Path(__file__).with_name("unlike_any_release.yaml"))
    document["components"]["schemas"] |= more["components"].pop("schemas")
    document["paths"] |= more["paths"]
    return document | {name: more[name] for name in ("openapi", "info", "servers")}


# 1.7 has the faults of all later releases too; the last one is in OpenAPI 3.1.
SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "committed": committed,
    "swagger": swagger,
    "older": lambda: before("1.14.4"),
    "release_1_7": lambda: release("1.7.0"),
    "release_1_17": release_1_17,
    "unlike_any_release": unlike_any_release,
}


def spec_file(shape: str, folder: Path) -> Path:
    """The file of a shape: one of `SHAPES`, or the name of a published file."""
    found = [path for path in published() if path.stem == shape]
    return found[0] if found else write(SHAPES[shape](), folder, shape)


def all_shapes() -> list[str]:
    """Every shape that there is something to generate from."""
    return [*SHAPES, *(path.stem for path in published())]
