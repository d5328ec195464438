"""What changes for a user between two descriptions, and what a run says of it."""

import copy
from pathlib import Path
from typing import Any

import pytest

from codegen.__main__ import main
from codegen.report import report
from tests.vmm.codegen.descriptions import described_reference, edited, reference, swagger, write
from tests.vmm.codegen.releases import release, release_1_17


@pytest.fixture
def diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        files = [write(old, tmp_path, "old"), write(new, tmp_path, "new")]
        assert main(["diff", *map(str, files)]) == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_the_same_release_in_two_dialects_changes_nothing(diff: Any) -> None:
    assert diff(swagger(), reference()) == ["1.16.1 -> 1.16.1", "nothing changes for a user"]


def test_the_next_release(diff: Any) -> None:
    default = "monitor's default"
    assert diff(swagger(), release_1_17()) == [
        "1.16.1 -> 1.17.0",
        "+ model MetricsProperties: type free-form object",
        "~ field MachineConfiguration.huge_pages: values 'None' '2M' -> 'None' 'Transparent' '2M'",
        f"~ field MachineConfiguration.huge_pages: {default} - -> 'None'",
        "~ field MemoryHotplugConfig.total_size_mib: maximum - -> 4294967295",
        "~ field MemoryHotplugConfig.slot_size_mib: maximum - -> 4294967295",
        "~ field MemoryHotplugConfig.block_size_mib: maximum - -> 4294967295",
        *(
            f"~ field PartialMachineConfiguration.huge_pages: {change}"
            for change in (
                "values 'None' '2M' -> 'None' 'Transparent' '2M'",
                f"{default} - -> 'None'",
            )
        ),
        f"+ field Metrics.emit_id: type boolean, {default} False, required no",
        "+ field Metrics.properties: type MetricsProperties, required no",
        "+ field SnapshotLoadParams.huge_pages: type string, "
        "values 'Snapshot' 'None' 'Transparent' '2M', required no",
    ]


def test_an_older_release_has_less(diff: Any) -> None:
    lines = diff(swagger(), release("1.13.0"))
    assert lines[0] == "1.16.1 -> 1.13.0"
    assert (
        "- PUT /serial: member serial.set, sends SerialDevice, body required, "
        "statuses 204 default" in lines
    )
    assert "- DELETE /pmem/{id}: member pmem(id).delete, statuses 204 400 default" in lines
    assert "~ model CpuConfig: type object -> free-form object" in lines
    assert not [line for line in lines if "imds_com" in line]


def test_what_only_reads_differently_is_no_change(diff: Any) -> None:
    def reword(document: dict[str, Any]) -> None:
        document["definitions"]["Drive"]["description"] = "Something else."
        document["definitions"]["Drive"]["required"].reverse()

    assert diff(swagger(), edited(reword))[1:] == ["nothing changes for a user"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda found: found["definitions"]["Drive"]["required"].append("path_on_host"),
            "field Drive.path_on_host: required no -> yes",
        ),
        (
            lambda found: found["paths"]["/version"]["get"]["responses"]["200"]["schema"].update(
                {"$ref": "#/definitions/InstanceInfo"}
            ),
            "GET /version: answers FirecrackerVersion -> InstanceInfo",
        ),
    ],
)
def test_a_change_for_a_user_is_told(diff: Any, change: Any, said: str) -> None:
    assert diff(swagger(), edited(change))[1:] == [f"~ {said}"]


# What a run says to somebody who uses the client


def changed() -> dict[str, Any]:
    """The next version: a field that cannot keep its name, and one that could not before."""
    after = copy.deepcopy(described_reference())
    after["info"]["version"] = "9.0.0"
    after["components"]["schemas"]["Drive"]["properties"]["copy"] = {"type": "string"}
    return after


def test_the_difference_to_the_description_so_far_is_told() -> None:
    version = described_reference()["info"]["version"]
    assert list(report(described_reference(), changed(), set())) == [
        f"{version} -> 9.0.0: + field Drive.copy: type string, required no",
        "name: Drive.copy is Drive.copy_ in Python, because every model has a member of that name",
    ]


def test_nothing_is_told_when_nothing_changes() -> None:
    assert list(report(described_reference(), described_reference(), set())) == []
    assert list(report(None, described_reference(), set())) == []


def test_a_name_that_is_gone_is_told() -> None:
    assert list(report(None, described_reference(), {"Pmem"})) == [
        "name: Pmem is gone from generated_vmm; programs that import it fail"
    ]
