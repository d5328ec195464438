"""The simulator beside descriptions: the one it is made from, and ones that are newer."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from generated_vmm.testing import description
from generated_vmm.testing.api import routing
from generated_vmm.testing.bodies import facts
from generated_vmm.testing.description import OPERATIONS, SCHEMAS, Operation
from generated_vmm.testing.rule import RULES
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import IS_OLDER


@pytest.mark.skipif(IS_OLDER, reason="the rules know more than an older description")
def test_no_rule_is_for_nothing() -> None:
    assert RULES.keys() <= {one.endpoint for one in OPERATIONS}


@pytest.mark.skipif(IS_OLDER, reason="the facts are about more than an older description")
def test_facts_are_about_described_fields() -> None:
    places = [*facts.DEFAULTS, *facts.FORMATS, *facts.NULLABLE, *facts.OWN_RANGE]
    for schema, field in (place.split(".") for place in places):
        assert field in SCHEMAS[schema]["fields"], (schema, field)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A description with a field, a value and two resources more."""
    schemas = copy.deepcopy(dict(SCHEMAS))
    schemas["Balloon"]["fields"]["tags"] = {"type": "object", "values": {"type": "string"}}
    schemas["Balloon"]["fields"]["limit_mib"] = {"type": "integer", "maximum": 10}
    schemas["MachineConfiguration"]["fields"]["huge_pages"]["enum"].append("Transparent")
    schemas["Watchdog"] = {
        "type": "object",
        "required": ["seconds"],
        "fields": {"seconds": {"type": "integer"}, "loud": {"type": "boolean"}},
    }
    schemas["Camera"] = {
        "type": "object",
        "required": ["camera_id"],
        "fields": {"camera_id": {"type": "string"}, "width": {"type": "integer"}},
    }
    more = [
        Operation("PUT", "/watchdog", "before start", "Watchdog", True, None),
        Operation("GET", "/watchdog", "any", None, False, "Watchdog"),
        Operation("PATCH", "/watchdog", "any", "Watchdog", True, None),
        Operation("PUT", "/cameras/{camera_id}", "any", "Camera", True, None),
        Operation("DELETE", "/cameras/{camera_id}", "any", None, False, None),
    ]
    config = {
        **description.CONFIG,
        "watchdog": {"ref": "Watchdog"},
        "cameras": {"type": "array", "items": {"ref": "Camera"}},
    }
    for place in ("generated_vmm.testing.bodies.shapes", "generated_vmm.testing.api.operations"):
        monkeypatch.setattr(f"{place}.SCHEMAS", schemas)
    monkeypatch.setattr("generated_vmm.testing.machine.CONFIG", config)
    monkeypatch.setattr(description, "CONFIG", config)
    monkeypatch.setattr(description, "OPERATIONS", (*OPERATIONS, *more))
    monkeypatch.setattr(routing, "OPERATIONS", (*OPERATIONS, *more))
    description.config_member.cache_clear()
    yield
    description.config_member.cache_clear()


@pytest.mark.usefixtures("newer")
class TestNewerDescription:
    """What a release brings is known without an edit."""

    @pytest.fixture
    def call(self, newer: None, call: Caller) -> Caller:
        return call

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
