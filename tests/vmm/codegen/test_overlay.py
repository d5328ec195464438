"""The small part of OpenAPI Overlay 1.0 that the project's overlay uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codegen.describe import describe
from codegen.document import Unusable, operations_of, schemas_of
from codegen.overlay import apply_overlay, read_overlay
from tests.vmm.codegen.descriptions import PROJECT, reference

VALID: dict[str, Any] = {
    "overlay": "1.0.0",
    "info": {"title": "Words", "version": "1"},
    "actions": [{"target": "$.info", "update": {"title": "New"}}],
}


def written(actions: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "overlay.yaml"
    path.write_text(json.dumps(VALID | {"actions": actions}), encoding="utf-8")
    return path


def applied(actions: list[dict[str, Any]], folder: Path) -> tuple[dict[str, Any], list[str]]:
    document: dict[str, Any] = {
        "info": {"version": "1.16.1", "title": "Old"},
        "paths": {"/a": {"get": {"tags": ["one"]}}},
    }
    return document, apply_overlay(document, read_overlay(written(actions, folder)))


def test_an_update_is_merged(tmp_path: Path) -> None:
    update = {"get": {"tags": ["two"], "x-member": "a"}, "put": {"operationId": "b"}}
    document, notes = applied([{"target": "$.paths['/a']", "update": update}], tmp_path)
    assert document["paths"]["/a"] == {
        "get": {"tags": ["one", "two"], "x-member": "a"},
        "put": {"operationId": "b"},
    }
    assert notes == []


def test_what_was_merged_is_a_copy(tmp_path: Path) -> None:
    actions = read_overlay(written([{"target": "$", "update": {"x-list": [1]}}], tmp_path))
    first: dict[str, Any] = {"info": {"version": "1.0.0"}}
    apply_overlay(first, actions)
    first["x-list"].append(2)
    second: dict[str, Any] = {"info": {"version": "1.0.0"}}
    apply_overlay(second, actions)
    assert second["x-list"] == [1]


def test_a_target_can_be_removed(tmp_path: Path) -> None:
    document, _ = applied([{"target": "$.paths['/a'].get", "remove": True}], tmp_path)
    assert document["paths"]["/a"] == {}


def test_a_target_that_matches_nothing_is_listed(tmp_path: Path) -> None:
    document, notes = applied([{"target": "$.paths['/b']", "update": {"get": {}}}], tmp_path)
    assert notes == ["overlay: $.paths['/b'] matches nothing in 1.16.1"]
    assert list(document["paths"]) == ["/a"]


def test_an_entry_for_later_versions_is_listed(tmp_path: Path) -> None:
    update = {"target": "$.info", "x-since": "1.17.0", "update": {"title": "New"}}
    document, notes = applied([update], tmp_path)
    assert notes == ["overlay: $.info is for 1.17.0 and later"]
    assert document["info"]["title"] == "Old"


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ({"target": "$..drive_id", "update": {}}, "outside the subset of JSONPath"),
        ({"target": "$.paths.*", "update": {}}, "outside the subset of JSONPath"),
        ({"target": "paths", "update": {}}, "outside the subset of JSONPath"),
        ({"target": "$.info"}, "an action needs 'update' or 'remove: true'"),
        ({"target": "$.info", "update": "text"}, "expected an object"),
        ({"target": "$.info", "copy": "$.paths"}, "'copy' is not a construct"),
    ],
)
def test_an_action_of_another_kind_is_refused(
    action: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Unusable, match=r"#/actions/0") as caught:
        read_overlay(written([action], tmp_path))
    assert reason in str(caught.value)


def test_a_plain_value_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="the target has to be an object"):
        applied([{"target": "$.info.title", "update": {"a": 1}}], tmp_path)


def test_another_version_of_overlay_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "overlay.yaml"
    path.write_text(json.dumps(VALID | {"overlay": "2.0.0"}), encoding="utf-8")
    with pytest.raises(Unusable, match=r"only Overlay 1\.0\.0 is known"):
        read_overlay(path)


def test_our_overlay_has_words_for_the_whole_reference() -> None:
    document, notes = describe(reference(), read_overlay(PROJECT.overlay))
    assert [note for note in notes if "no words" in note] == []
    for _, _, operation in operations_of(document):
        assert operation["x-member"]
        assert operation["x-phase"]
    assert all(schema["description"] for schema in schemas_of(document).values())


def test_our_overlay_adds_the_undescribed_operations_from_1_16_on() -> None:
    overlay = read_overlay(PROJECT.overlay)
    facts = reference()
    removed = {"deleteGuestDriveByID", "deleteGuestPmemByID", "deleteGuestNetworkInterfaceByID"}
    document, _ = describe(facts, overlay)
    assert removed <= {found["operationId"] for _, _, found in operations_of(document)}
    facts["info"]["version"] = "1.15.1"
    document, _ = describe(facts, overlay)
    assert not removed & {found["operationId"] for _, _, found in operations_of(document)}
