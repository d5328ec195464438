"""Each fix-up repairs its fault, and says so when the fault is gone or there is no such thing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from codegen import fixups
from codegen.document import Node, answer_of, body_of, schemas_of
from codegen.fixups import FIX_UPS, FixUp, repair
from codegen.import_spec import facts_of_description
from tests.vmm.codegen.descriptions import reference, swagger
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


@pytest.mark.parametrize("version", ["1.7.0", "1.13.0"], ids=["string", "objects"])
def test_an_untyped_cpu_template_is_any_object(version: str) -> None:
    found = facts(release(version))
    fixups.cpu_config(found)
    assert schemas_of(found)["CpuConfig"] == {"type": "object", "additionalProperties": True}


def test_a_misspelt_field_gets_its_name() -> None:
    found = facts(release("1.13.0"))
    fixups.imds_compat(found)
    members = schemas_of(found)["MmdsConfig"]["properties"]
    assert "imds_comat" not in members
    assert members["imds_compat"]["type"] == "boolean"


def test_hinting_answers_204_and_nothing() -> None:
    found = facts(release("1.14.0"))
    fixups.hinting_status(found)
    for step in ("start", "stop"):
        operation = found["paths"][f"/balloon/hinting/{step}"]["patch"]
        assert list(operation["responses"]) == ["204", "400", "default"]
        assert answer_of(operation) is None


def test_a_partial_machine_configuration_requires_nothing() -> None:
    found = reference()
    fixups.partial_machine_configuration(found)
    machine = found["paths"]["/machine-config"]
    assert body_of(machine["patch"]) == {"$ref": "#/components/schemas/PartialMachineConfiguration"}
    assert body_of(machine["put"]) == {"$ref": "#/components/schemas/MachineConfiguration"}
    schemas = schemas_of(found)
    assert "required" not in schemas["PartialMachineConfiguration"]
    assert schemas["MachineConfiguration"]["required"] == ["mem_size_mib", "vcpu_count"]


def test_a_described_default_is_noted_and_not_sent() -> None:
    found = reference()
    fixups.defaults(found)
    engine = schemas_of(found)["Drive"]["properties"]["io_engine"]
    assert engine["x-default"] == "Sync"
    assert "default" not in engine


def test_only_the_body_that_may_be_absent_stays_optional() -> None:
    found = reference()
    fixups.required_bodies(found)
    optional = [
        path
        for path, item in found["paths"].items()
        for operation in item.values()
        if operation.get("requestBody", {}).get("required") is False
    ]
    assert optional == ["/balloon/hinting/start"]


def test_the_address_of_the_metadata_is_a_pattern() -> None:
    found = reference()
    fixups.patterns(found)
    address = schemas_of(found)["MmdsConfig"]["properties"]["ipv4_address"]
    assert "format" not in address
    assert address["pattern"].startswith(r"^169\.254\.(")
    assert address["pattern"].endswith("$")
