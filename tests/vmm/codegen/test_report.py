"""What a run says to somebody who uses the client."""

from __future__ import annotations

import copy
from typing import Any

from codegen.report import report
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
