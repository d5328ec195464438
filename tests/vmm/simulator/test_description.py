"""The simulator beside descriptions: its own, newer ones, and ones that lack or rename a field."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.testing import SimulatedMonitor, facts
from generated_vmm.testing.description import CURRENT, Description
from generated_vmm.testing.http import Request
from generated_vmm.testing.operations import answer
from generated_vmm.testing.rule import ACTIONS, CHECKS, EARLY_CHECKS
from tests.releases.renames import ANNOUNCED
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import IS_OLDER, MakeMonitor, at_once
from tests.vmm.simulator.everything import calls

FIELDS = [(name, field) for name in CURRENT.schemas for field in CURRENT.fields(name)]
GOING = [*ANNOUNCED, ("PartialMachineConfiguration", "cpu_template")]  # a fix-up makes its schema


@pytest.mark.skipif(IS_OLDER, reason="the rules know more than an older description")
def test_no_rule_is_for_nothing() -> None:
    endpoints = {one.endpoint for one in CURRENT.operations}
    assert {**EARLY_CHECKS, **CHECKS, **ACTIONS}.keys() <= endpoints


@pytest.mark.skipif(IS_OLDER, reason="the facts are about more than an older description")
def test_facts_are_about_described_fields() -> None:
    places = [*facts.DEFAULTS, *facts.FORMATS, *facts.NULLABLE, *facts.OWN_RANGE]
    for schema, field in (place.split(".") for place in places):
        assert field in CURRENT.fields(schema), (schema, field)


def table() -> dict[str, Any]:
    return {
        "version": CURRENT.version,
        "operations": [vars(one) for one in CURRENT.operations],
        "schemas": copy.deepcopy(dict(CURRENT.schemas)),
    }


def changed(schema: str, field: str, name: str | None) -> Description:
    """The description with the field under another name, or without it."""
    changing = table()
    shape = changing["schemas"][schema]
    spec = shape["fields"].pop(field)
    if name is not None:
        shape["fields"][name] = spec
    kept = [name if one == field else one for one in shape["required"]]
    shape["required"] = [one for one in kept if one is not None]
    return Description(changing)


def walk(description: Description, folder: Path) -> list[tuple[str, int]]:
    """Calls every operation with every field, past the socket; the statuses answered.

    What fails within the simulation is raised here.
    """
    answered = []
    for asked in calls(description, folder):
        monitor = SimulatedMonitor(
            "none", check_files=False, enable_pci=True, description=description
        )
        machine = at_once(monitor).machine
        for method, path, body in asked:
            text = None if body is None else json.dumps(body).encode()
            status = answer(machine, Request(method, path, text)).status
            answered.append((f"{method} {path}", status))
        machine.end(remove_files=True)
    return answered


def test_the_walk_is_accepted(folder: Path) -> None:
    assert {status for _, status in walk(CURRENT, folder)} == {200, 204}


@pytest.mark.parametrize(("schema", "field"), GOING)
def test_an_announced_removal_changes_nothing_else(folder: Path, schema: str, field: str) -> None:
    without = Description(table()) if field not in CURRENT.fields(schema) else None
    assert walk(without or changed(schema, field, None), folder) == walk(CURRENT, folder)


@pytest.mark.parametrize("name", ["renamed", None])
@pytest.mark.parametrize("schema", [name for name in CURRENT.schemas if CURRENT.fields(name)])
def test_any_field_may_go(folder: Path, schema: str, name: str | None) -> None:
    for field in CURRENT.fields(schema):
        answered = walk(changed(schema, field, name), folder)
        assert {status for _, status in answered} <= {200, 204, 400}, field


@pytest.mark.parametrize("schema", CURRENT.schemas)
def test_any_schema_may_have_another_name(folder: Path, schema: str) -> None:
    renamed = json.dumps(table()).replace(f'"{schema}"', '"Renamed"')
    answered = walk(Description(json.loads(renamed)), folder)
    assert {status for _, status in answered} <= {200, 204, 400}


def test_a_guest_starts_though_a_field_it_needs_is_renamed(
    folder: Path, make_monitor: MakeMonitor
) -> None:
    description = changed("BootSource", "kernel_image_path", "kernel")
    call = Caller(make_monitor(description=description).socket_path)
    call.accepted("PUT", "/boot-source", {"kernel": "/no/such/kernel"})
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
    assert call.get("/vm/config")["boot-source"] == {
        "kernel": "/no/such/kernel",
        "initrd_path": None,
        "boot_args": None,
    }


def test_a_renamed_field_of_an_answer_has_a_value(make_monitor: MakeMonitor) -> None:
    description = changed("InstanceInfo", "state", "phase")
    shown = Caller(make_monitor(description=description).socket_path).get("/")
    assert (shown["phase"], "state" in shown) == ("Not started", False)


@pytest.fixture
def newer() -> Description:
    """A description with a field, a value and two resources more."""
    newer = table()
    schemas = newer["schemas"]
    schemas["Balloon"]["fields"]["tags"] = {"type": "object", "values": {"type": "string"}}
    schemas["Balloon"]["fields"]["limit_mib"] = {"type": "integer", "maximum": 10}
    schemas["MachineConfiguration"]["fields"]["huge_pages"]["enum"].append("Transparent")
    watchdog = {"seconds": {"type": "integer"}, "loud": {"type": "boolean"}}
    camera = {"camera_id": {"type": "string"}, "width": {"type": "integer"}}
    schemas["Watchdog"] = {"type": "object", "required": ["seconds"], "fields": watchdog}
    schemas["Camera"] = {"type": "object", "required": ["camera_id"], "fields": camera}
    config = schemas["FullVmConfiguration"]["fields"]
    config["watchdog"] = {"ref": "Watchdog"}
    config["cameras"] = {"type": "array", "items": {"ref": "Camera"}}
    for method, path, body, shown in (
        ("PUT", "/watchdog", "Watchdog", None),
        ("GET", "/watchdog", None, "Watchdog"),
        ("PATCH", "/watchdog", "Watchdog", None),
        ("PUT", "/cameras/{camera_id}", "Camera", None),
        ("DELETE", "/cameras/{camera_id}", None, None),
    ):
        shape = {"method": method, "path": path, "body": body, "answer": shown}
        newer["operations"].append(shape | {"phase": "any", "body_required": body is not None})
    return Description(newer)


class TestNewerDescription:
    """What a release brings is known without an edit."""

    @pytest.fixture
    def call(self, newer: Description, make_monitor: MakeMonitor) -> Caller:
        return Caller(make_monitor(description=newer).socket_path)

    def test_a_field_is_stored_and_shown(self, call: Caller) -> None:
        body = {"amount_mib": 1, "deflate_on_oom": True, "tags": {"a": "b"}, "limit_mib": 10}
        call.accepted("PUT", "/balloon", body)
        shown = call.get("/balloon")
        assert (shown["tags"], shown["limit_mib"]) == ({"a": "b"}, 10)

    @pytest.mark.parametrize("wrong", [{"tags": {"a": 1}}, {"tags": []}, {"limit_mib": 11}])
    def test_a_field_is_checked_as_described(self, call: Caller, wrong: dict[str, object]) -> None:
        body = {"amount_mib": 1, "deflate_on_oom": True, **wrong}
        fault = call("PUT", "/balloon", body).fault
        assert "invalid" in fault
        assert f"`{next(iter(wrong))}`" in fault

    def test_a_value_is_taken(self, call: Caller) -> None:
        body = {"vcpu_count": 1, "mem_size_mib": 128, "huge_pages": "Transparent"}
        call.accepted("PUT", "/machine-config", body)
        assert call.get("/machine-config")["huge_pages"] == "Transparent"

    def test_a_single_resource_is_kept_merged_and_shown(self, call: Caller) -> None:
        assert call("GET", "/watchdog").status == 400
        call.accepted("PUT", "/watchdog", {"seconds": 5})
        call.accepted("PATCH", "/watchdog", {"seconds": 7})
        expected = {"seconds": 7, "loud": False}
        assert call.get("/watchdog") == call.get("/vm/config")["watchdog"] == expected
        assert "missing field `seconds`" in call("PUT", "/watchdog", {}).fault

    def test_a_named_resource_is_replaced_and_taken_away(self, call: Caller) -> None:
        for width in (1, 2):
            call.accepted("PUT", "/cameras/a", {"camera_id": "a", "width": width})
        assert call.get("/vm/config")["cameras"] == [{"camera_id": "a", "width": 2}]
        assert "does not match" in call("PUT", "/cameras/a", {"camera_id": "b"}).fault
        call.accepted("DELETE", "/cameras/a")
        assert call.get("/vm/config")["cameras"] == []
        assert call("DELETE", "/cameras/a").status == 400
