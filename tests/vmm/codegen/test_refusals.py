"""One thing of a description is changed to something unknown: the import stops and says why."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from codegen.describe import describe, for_generator
from codegen.document import CORRECT, TEACH, Node, Unusable
from codegen.generate import generate_package
from codegen.import_spec import facts_of_description, import_spec
from codegen.pipeline import described
from codegen.requirements import require_unclaimed
from tests.vmm.codegen.descriptions import PROJECT, edited, write

SCHEMAS = "#/definitions"
VSOCK = f"{SCHEMAS}/Vsock"
UDS = f"{VSOCK}/properties/uds_path"
CID = f"{VSOCK}/properties/guest_cid"
ACTIONS = "#/paths/~1actions/put"
BODY = f"{ACTIONS}/parameters/0"


UNKNOWN = [
    ("#", {"webhooks": {}}, "#/webhooks", "is not a construct this importer knows"),
    ("#", {"basePath": "/v 1"}, "#/basePath", "'/v 1' is an unsupported base path"),
    ("#", {"servers": []}, "#/servers", "is not a construct this importer knows"),
    ("#", {"consumes": ["application/xml"]}, "#/consumes", "only application/json is known"),
    ("#/info", {"version": "latest"}, "#/info", "version 'latest' is not of the form"),
    (ACTIONS, {"security": []}, f"{ACTIONS}/security", "is not a construct"),
    (ACTIONS, {"operationId": "a-b"}, f"{ACTIONS}/operationId", "cannot become a name in Python"),
    (ACTIONS, {"operationId": "putGuestVsock"}, "#/paths", "the operationId of more than one"),
    (ACTIONS, {"operationId": "putGuestVSock"}, "#/paths", "the operationId of more than one"),
    (f"{ACTIONS}/parameters/0", {"in": "header"}, f"{ACTIONS}/parameters/0", "in 'header'"),
    (f"{ACTIONS}/parameters/0", {"format": "x"}, f"{ACTIONS}/parameters/0/format", "not a const"),
    (f"{ACTIONS}/responses", {"2xx": {}}, f"{ACTIONS}/responses/2xx", "status '2xx' is not known"),
    (f"{ACTIONS}/responses/204", {"headers": {}}, f"{ACTIONS}/responses/204/headers", "not a con"),
    ("#/paths", {"/a b": {}}, "#/paths/~1a b", "path '/a b'"),
    ("#/paths", {"/a/{id}": {"get": {"operationId": "a", "responses": {}}}},
     "#/paths/~1a~1{id}/get", "parameters do not match"),
    ("#/paths/~1actions", {"post": {}}, "#/paths/~1actions/post", "is not a construct"),
    (ACTIONS, {"tags": ["<tag>"]}, f"{ACTIONS}/tags/0", "cannot become a name in Python"),
    (UDS, {"uniqueItems": True}, UDS, "'uniqueItems' does not suit the type"),
    (UDS, {"minimum": 1}, UDS, "'minimum' does not suit the type"),
    (CID, {"enum": ["3"]}, f"{CID}/enum/0", "expected a whole number, found '3'"),
    (CID, {"enum": [3, True]}, f"{CID}/enum/1", "expected a whole number, found True"),
    (UDS, {"$ref": "#/definitions/Drive"}, UDS, "a reference and a type of its own"),
    (f"{SCHEMAS}/MmdsConfig/properties/network_interfaces/items", {"minLength": 1},
     f"{SCHEMAS}/MmdsConfig/properties/network_interfaces/items", "'minLength' of an element"),
    (SCHEMAS, {"Two Words": {"type": "object"}}, f"{SCHEMAS}/Two Words", "cannot become a name"),
    (SCHEMAS, {"VSock": {"type": "object"}}, f"{SCHEMAS}/VSock", "the same name in Python"),
    (f"{VSOCK}/properties", {"uds-path": {"type": "string"}}, f"{VSOCK}/properties/uds-path",
     "the same name in Python"),
    (VSOCK, {"discriminator": "x"}, f"{VSOCK}/discriminator", "is not a construct"),
    (VSOCK, {"additionalProperties": True}, VSOCK, "beside additionalProperties"),
    (VSOCK, {"required": ["nope"]}, f"{VSOCK}/required", "'nope' is required but not described"),
    (UDS, {"type": "file"}, f"{UDS}/type", "type 'file' cannot be generated"),
    (UDS, {"type": "array"}, UDS, "an array without 'items'"),
    (UDS, {"type": ["string", "integer"]}, f"{UDS}/type", "cannot be generated"),
    (UDS, {"pattern": "a\nb"}, f"{UDS}/pattern", "unprintable characters"),
    (UDS, {"format": "a\x7f"}, f"{UDS}/format", "unprintable characters"),
    (UDS, {"minLength": "1"}, f"{UDS}/minLength", "expected a finite number"),
    (UDS, {"minLength": -1}, f"{UDS}/minLength", "expected a length, found -1"),
    (UDS, {"maxLength": 1.5}, f"{UDS}/maxLength", "expected a length, found 1.5"),
    (UDS, {"minLength": 2, "maxLength": 1}, UDS, "no value lies between 'minLength' and"),
    (CID, {"maximum": float("inf")}, f"{CID}/maximum", "expected a finite number, found inf"),
    (CID, {"maximum": True}, f"{CID}/maximum", "expected a finite number, found True"),
    (CID, {"minimum": 4.1, "maximum": 4.9}, CID, "no value lies between 'minimum' and 'maximum'"),
    (CID, {"default": date(2026, 1, 1)}, f"{CID}/default", "is no value of JSON"),
    (CID, {"default": [b"x"]}, f"{CID}/default/0", "is no value of JSON"),
    (CID, {"default": float("nan")}, f"{CID}/default", "nan is no value of JSON"),
    (UDS, {"enum": ["a\tb"]}, f"{UDS}/enum/0", "unprintable characters"),
    (UDS, {"enum": ["a\ud800"]}, f"{UDS}/enum/0", "unprintable characters"),
    (UDS, {"readOnly": "yes"}, f"{UDS}/readOnly", "expected true or false"),
    (UDS, {"enum": []}, f"{UDS}/enum", "an enum needs values"),
    (UDS, {"enum": ["a", False]}, f"{UDS}/enum/1", "expected text, found False"),
    (UDS, {"$ref": "#/definitions/Nope"}, f"{UDS}/$ref", "refers to no schema"),
    (UDS, {"$ref": "other.yaml#/Drive"}, f"{UDS}/$ref", "refers to no schema"),
    (UDS, {"oneOf": [{"type": "string"}, {"type": "integer"}]}, f"{UDS}/oneOf", "several schemas"),
    (f"{VSOCK}/properties", {"a b": {"type": "string"}}, f"{VSOCK}/properties/a b", "a name in Py"),
    (f"{VSOCK}/properties", {"any": {}}, f"{VSOCK}/properties/any", "neither 'type' nor"),
    (f"{VSOCK}/properties", {"list": []}, f"{VSOCK}/properties/list", "expected an object"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "change", "place", "reason"), UNKNOWN)
def test_the_place_and_the_reason_are_named(
    changed: str, change: dict[str, Any], place: str, reason: str
) -> None:
    document = edited(lambda document: _change(document, changed, change))
    with pytest.raises(Unusable) as caught:
        facts_of_description(Node(document))
    message = str(caught.value)
    assert message.startswith(f"{place}: ")
    assert reason in message
    assert message.endswith((CORRECT, TEACH))
    assert "\n" not in message


def test_the_file_is_named_too(tmp_path: Path) -> None:
    path = write(
        edited(lambda document: _change(document, VSOCK, {"discriminator": "x"})), tmp_path
    )
    with pytest.raises(Unusable, match=re.escape(f"{path}:1: {VSOCK}/discriminator: ")):
        import_spec(path)


def _change(document: dict[str, Any], place: str, change: dict[str, Any]) -> None:
    found: Any = document
    for step in place.split("/")[1:]:
        key: Any = step.replace("~1", "/")
        found = found[int(key) if isinstance(found, list) else key]
    found |= change


@pytest.mark.parametrize("missing", ["info", "paths"])
def test_a_description_without_a_part_is_refused(missing: str, tmp_path: Path) -> None:
    path = write(edited(lambda document: document.pop(missing)), tmp_path)
    with pytest.raises(Unusable, match=f"#: '{missing}' is missing"):
        import_spec(path)


def refused(document: dict[str, Any], reason: str) -> None:
    """The description is one that can be read, and nothing can be generated from it."""
    described, _ = describe(facts_of_description(Node(document)), [])
    with pytest.raises(Unusable, match=reason) as caught:
        for_generator(described)
    assert "\n" not in str(caught.value)


NO_PATTERNS = ("(", "(?=a)b.*", "a(?!b)", "(?<=a)b", r"(a)\1", "a{{2}")
UNUSABLE = [
    (f"{SCHEMAS}/TokenBucket/properties", {"up": {"$ref": "#/definitions/Drive"}}, "a circle"),
    *(
        (SCHEMAS, {name: {"type": "object"}}, f"{name}: generated code has this name already")
        for name in ("Field", "DriveFields", "Json")
    ),
    *(
        (SCHEMAS, {"Port": {"type": kind, fact: True}}, "Port: neither an object nor an enum")
        for kind, fact in (("boolean", "readOnly"), ("object", "nullable"))
    ),
    *(
        (UDS, {keyword: expression}, "Vsock/properties/uds_path: pydantic cannot check this patt")
        for keyword in ("pattern", "format")
        for expression in NO_PATTERNS
    ),
    *(
        (
            "#/paths/~1vsock/put",
            {"operationId": name},
            f"vsock/put: generated code has the name '{name}'",
        )
        for name in ("quote", "models", "noAnswer")
    ),
    (BODY, {"schema": {"type": "string"}}, "put: a body that is no named schema"),
    (BODY, {"schema": {"$ref": "#/definitions/CpuTemplate"}}, r"a body that is no object \(CpuTem"),
    (f"{ACTIONS}/responses", {"200": {"description": "x"}}, "actions/put: expected one 2xx status"),
]


@pytest.mark.parametrize(("changed", "change", "reason"), UNUSABLE)
def test_what_cannot_be_generated_is_refused(
    changed: str, change: dict[str, Any], reason: str
) -> None:
    refused(edited(lambda document: _change(document, changed, change)), reason)


@pytest.mark.parametrize("name", ["AsyncVmmClient", "VmmError", "to_config_file"])
def test_a_name_that_the_package_exports_is_refused(name: str) -> None:
    require_unclaimed({"Drive", "API"}, PROJECT.written)
    with pytest.raises(Unusable, match=f"{name}: generated_vmm has this name already"):
        require_unclaimed({"Drive", name}, PROJECT.written)


@pytest.mark.parametrize("name", ["quote", "Quote", "body", "models", "no_answer"])
def test_a_parameter_that_would_hide_generated_code_is_refused(name: str) -> None:
    def rename(found: dict[str, Any]) -> None:
        operation = found["paths"].pop("/drives/{drive_id}")["put"] | {"operationId": "other"}
        operation["parameters"][0]["name"] = name
        found["paths"][f"/drives/of/{{{name}}}"] = {"put": operation}
        found["paths"]["/drives/{drive_id}"] = edited(lambda _: None)["paths"]["/drives/{drive_id}"]

    refused(edited(rename), f"drives~1of~1{{{name}}}/put: generated code has the name '{name}'")


def test_a_description_of_something_else_is_refused() -> None:
    pets = {"get": {"operationId": "listPets", "responses": {"200": {"description": "x"}}}}
    document = {"swagger": "2.0", "info": {"version": "1.0.0"}, "paths": {"/pets": pets}}
    refused(document, r"describe a Firecracker monitor: it lacks GET / \(describeInstance\), PUT")


def test_what_the_generator_would_leave_out_is_refused(tmp_path: Path) -> None:
    document = described(PROJECT, PROJECT.description())
    document["components"]["schemas"]["Vm"]["properties"]["state"]["enum"] = ["Paused", 1]
    with pytest.raises(Unusable, match="Unable to process schema /components/schemas/Vm"):
        generate_package(document, tmp_path / "made")
    assert not (tmp_path / "made").exists()
