"""What a run says to somebody who uses the client."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from codegen.document import operations_of
from codegen.report import lines_to_write, report
from tests.vmm.codegen.descriptions import described_reference


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


LINES = {
    "PUT /drives/{drive_id}": (
        "def set(self, /, **fields: Unpack[models.DriveFields]) -> None: ...",
        "self._send(operations.made(self._id, as_model(models.Drive, body, fields)))",
        "- target: $.paths['/drives/{drive_id}'].put",
        "x-member: drives(drive_id).set",
    ),
    "GET /machine-config": (
        "def get(self) -> models.MachineConfiguration:",
        "return self._send(operations.made())",
        "x-member: machine_config.get",
    ),
    "DELETE /drives/{drive_id}": (
        "def delete(self) -> None:",
        "        self._send(operations.made(self._id))",
    ),
}


@pytest.mark.parametrize(("place", "lines"), LINES.items(), ids=LINES)
def test_the_lines_of_a_member_are_told(place: str, lines: tuple[str, ...]) -> None:
    (found,) = [
        (path, method, operation)
        for path, method, operation in operations_of(described_reference())
        if f"{method.upper()} {path}" == place
    ]
    said = lines_to_write(*found, "made")
    assert said.startswith(f"client: {place} ({found[2]['operationId']}) has no member;")
    for line in lines:
        assert line in said
