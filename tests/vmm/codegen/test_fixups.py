"""What is done to a release's facts: fix-ups, each for one fault, and the project's overlay."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codegen import fixups
from codegen.describe import describe
from codegen.document import Node, Unusable, answer_of, operations_of, schemas_of
from codegen.fixups import FIX_UPS, FixUp, repair
from codegen.import_spec import facts_of_description
from codegen.overlay import apply_overlay, read_overlay
from tests.vmm.codegen.descriptions import PROJECT, reference, swagger
from tests.vmm.codegen.releases import release

Documents = Callable[[], dict[str, Any]]


def facts(document: dict[str, Any]) -> dict[str, Any]:
    return facts_of_description(Node(document))


# Which shape still has the fault that a fix-up is about.
FAULTY: dict[FixUp, Documents] = {
    fixups.imds_compat: partial(release, "1.13.0"),
    fixups.cpu_config: partial(release, "1.7.0"),
    fixups.mmds_answer: swagger,
    fixups.mmds_free_form: partial(release, "1.13.0"),
    fixups.mmds_too_large: swagger,
    fixups.hinting_status: partial(release, "1.15.1"),
    fixups.patterns: swagger,
    fixups.defaults: swagger,
    fixups.required_bodies: swagger,
    fixups.required_sizes: swagger,
    fixups.partial_machine_configuration: swagger,
    fixups.tags: swagger,
}


def test_every_fix_up_has_a_reason_and_a_case_here() -> None:
    assert set(FAULTY) == set(FIX_UPS)
    assert all(fix_up.__doc__ for fix_up in FIX_UPS)


@pytest.mark.parametrize("fix_up", FIX_UPS, ids=lambda fix_up: fix_up.__name__)
def test_a_fix_up_repairs_once_and_then_is_no_longer_needed(fix_up: FixUp) -> None:
    document = facts(FAULTY[fix_up]())
    assert fix_up(document)
    assert fix_up(document) == []


@pytest.mark.parametrize("fix_up", FIX_UPS, ids=lambda fix_up: fix_up.__name__)
def test_a_fix_up_has_nothing_to_do_in_a_description_of_something_else(fix_up: FixUp) -> None:
    empty: dict[str, Any] = {"paths": {}, "components": {"schemas": {}}}
    assert fix_up(empty) is None


def test_the_notes_tell_the_three_outcomes_apart() -> None:
    notes = dict(note.split(": ", 1) for note in repair(facts(release("1.13.0"))))
    assert notes["fix-up imds_compat"] == "repaired 1 (MmdsConfig.imds_compat)"
    assert notes["fix-up hinting_status"] == "nothing in 1.13.0 to apply it to"
    notes = dict(note.split(": ", 1) for note in repair(reference()))
    assert notes["fix-up imds_compat"] == "no longer needed in 1.16.1"
    assert notes["fix-up defaults"].startswith("repaired 13 (CpuTemplate, ")


def test_hinting_answers_204_and_nothing() -> None:
    found = facts(release("1.14.0"))
    fixups.hinting_status(found)
    for step in ("start", "stop"):
        operation = found["paths"][f"/balloon/hinting/{step}"]["patch"]
        assert list(operation["responses"]) == ["204", "400", "default"]
        assert answer_of(operation) is None


# The small part of OpenAPI Overlay 1.0 that the project's overlay uses


OVERLAY: dict[str, Any] = {
    "overlay": "1.0.0",
    "info": {"title": "Words", "version": "1"},
    "actions": [{"target": "$.info", "update": {"title": "New"}}],
}


def written(actions: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "overlay.yaml"
    path.write_text(json.dumps(OVERLAY | {"actions": actions}), encoding="utf-8")
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
    path.write_text(json.dumps(OVERLAY | {"overlay": "2.0.0"}), encoding="utf-8")
    with pytest.raises(Unusable, match=r"only Overlay 1\.0\.0 is known"):
        read_overlay(path)


def test_our_overlay_has_words_for_the_whole_reference() -> None:
    document, notes = describe(reference(), read_overlay(PROJECT.overlay))
    assert [note for note in notes if "no words" in note] == []
    for _, _, operation in operations_of(document):
        assert operation["x-member"]
        assert operation["x-phase"]
    assert all(schema["description"] for schema in schemas_of(document).values())
