"""One thing of a description is changed to something unknown: the import stops and says why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from codegen.describe import describe, for_generator
from codegen.document import Node, Unusable
from codegen.import_spec import facts_of_description, import_spec
from tests.vmm.codegen.descriptions import committed, edited, write

SCHEMAS = "#/definitions"
VSOCK = f"{SCHEMAS}/Vsock"
UDS = f"{VSOCK}/properties/uds_path"
ACTIONS = "#/paths/~1actions/put"


UNKNOWN = [
    ("#", {"webhooks": {}}, "#/webhooks", "is not a construct this importer knows"),
    ("#", {"basePath": "/v1"}, "#/basePath", "only the base path '/' is known"),
    ("#", {"servers": []}, "#/servers", "is not a construct this importer knows"),
    ("#", {"consumes": ["application/xml"]}, "#/consumes", "only application/json is known"),
    ("#/info", {"version": "latest"}, "#/info", "version 'latest' is not of the form"),
    (ACTIONS, {"security": []}, f"{ACTIONS}/security", "is not a construct"),
    (ACTIONS, {"operationId": "a-b"}, f"{ACTIONS}/operationId", "cannot become a name in Python"),
    (ACTIONS, {"operationId": "putGuestVsock"}, "#/paths", "the operationId of more than one"),
    (ACTIONS, {"operationId": "putGuestVSock"}, "#/paths", "the operationId of more than one"),
    (f"{ACTIONS}/parameters/0", {"in": "query"}, f"{ACTIONS}/parameters/0", "parameter in 'query'"),
    (f"{ACTIONS}/parameters/0", {"format": "x"}, f"{ACTIONS}/parameters/0/format", "not a const"),
    (f"{ACTIONS}/responses", {"2xx": {}}, f"{ACTIONS}/responses/2xx", "status '2xx' is not known"),
    (f"{ACTIONS}/responses/204", {"headers": {}}, f"{ACTIONS}/responses/204/headers", "not a con"),
    ("#/paths", {"/a b": {}}, "#/paths/~1a b", "path '/a b'"),
    ("#/paths", {"/a/{id}": {"get": {"operationId": "a", "responses": {}}}},
     "#/paths/~1a~1{id}/get", "parameters do not match"),
    ("#/paths/~1actions", {"post": {}}, "#/paths/~1actions/post", "is not a construct"),
    (ACTIONS, {"tags": ["<tag>"]}, f"{ACTIONS}/tags/0", "cannot become a name in Python"),
    (UDS, {"uniqueItems": True}, f"{UDS}/uniqueItems", "is not a construct"),
    (UDS, {"minimum": 1}, UDS, "'minimum' does not suit the type"),
    (f"{VSOCK}/properties/guest_cid", {"enum": ["3"]}, f"{VSOCK}/properties/guest_cid",
     "'enum' does not suit the type"),
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
    (UDS, {"pattern": "("}, f"{UDS}/pattern", "no regular expression"),
    (UDS, {"minLength": "1"}, f"{UDS}/minLength", "expected a number"),
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
    assert "\n" not in message


def test_the_file_is_named_too(tmp_path: Path) -> None:
    path = write(
        edited(lambda document: _change(document, VSOCK, {"discriminator": "x"})), tmp_path
    )
    with pytest.raises(Unusable, match=re.escape(f"{path}: {VSOCK}/discriminator: ")):
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


def test_schemas_in_a_circle_are_refused(tmp_path: Path) -> None:
    document = edited(
        lambda document: _change(
            document, f"{SCHEMAS}/TokenBucket/properties", {"up": {"$ref": "#/definitions/Drive"}}
        )
    )
    described, _ = describe(facts_of_description(Node(document)), [])
    with pytest.raises(Unusable, match="a circle of references"):
        for_generator(described)


@pytest.mark.parametrize("name", ["Field", "DriveFields"])
def test_a_name_that_generated_code_has_already_is_refused(name: str, tmp_path: Path) -> None:
    document = edited(lambda document: _change(document, SCHEMAS, {name: {"type": "object"}}))
    described, _ = describe(facts_of_description(Node(document)), [])
    with pytest.raises(Unusable, match=f"{name}: generated code has this name already"):
        for_generator(described)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "nullable": True},
    ],
)
def test_a_name_for_what_is_no_model_is_refused(schema: dict[str, Any], tmp_path: Path) -> None:
    document = edited(lambda document: _change(document, SCHEMAS, {"Port": schema}))
    described, _ = describe(facts_of_description(Node(document)), [])
    with pytest.raises(Unusable, match="Port: neither an object nor an enum"):
        for_generator(described)


def test_a_server_with_a_path_is_refused(tmp_path: Path) -> None:
    document = committed() | {"servers": [{"url": "http://localhost/"}]}
    facts_of_description(Node(document))
    document["servers"][0]["url"] = "http://localhost/v1"
    with pytest.raises(Unusable, match="#/servers/0/url: only a server without a path is known"):
        facts_of_description(Node(document))


def test_a_body_that_is_no_object_is_refused(tmp_path: Path) -> None:
    document = edited(
        lambda document: _change(
            document, f"{ACTIONS}/parameters/0", {"schema": {"type": "string"}}
        )
    )
    described, _ = describe(facts_of_description(Node(document)), [])
    with pytest.raises(Unusable, match="PUT /actions: a body that is no named schema"):
        for_generator(described)


def test_two_successes_of_one_operation_are_refused(tmp_path: Path) -> None:
    document = edited(
        lambda document: _change(document, f"{ACTIONS}/responses", {"200": {"description": "x"}})
    )
    described, _ = describe(facts_of_description(Node(document)), [])
    with pytest.raises(Unusable, match="PUT /actions: expected one 2xx status"):
        for_generator(described)
