"""The words for a body that cannot be read, beside what serde_json says of the same body.

`measured_refusals.json` was measured: a Rust program with structs of the same fields read each body
with serde_json 1.0.154 and printed the error. `ok` is a body it took.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

import pytest

from generated_vmm.testing.bodies import devices, machine
from generated_vmm.testing.json.reader import Misread
from generated_vmm.testing.json.structs import Struct, read_body
from tests.vmm.simulator.caller import Caller

SHAPES: dict[str, type[Struct]] = {
    "Action": machine.Action,
    "Balloon": devices.Balloon,
    "Drive": devices.Drive,
    "MachineConfig": machine.MachineConfig,
    "MmdsConfig": devices.MmdsConfig,
    "NetworkInterface": devices.NetworkInterface,
    "SnapshotLoad": machine.SnapshotLoad,
    "Vm": machine.Vm,
}


class Measured(TypedDict):
    shape: str
    body: str
    said: str


MEASURED: list[Measured] = json.loads(
    Path(__file__).with_name("measured_refusals.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: f"{case['shape']} {case['body']}")
def test_a_body_is_judged_as_serde_json_judges_it(case: Measured) -> None:
    try:
        read_body(SHAPES[case["shape"]], case["body"].encode())
        said = "ok"
    except Misread as misread:
        said = str(misread)
    assert said == case["said"]


def test_a_refusal_over_the_wire_names_the_place(call: Caller) -> None:
    reply = call("PATCH", "/vm", '{"state":"Running"}')
    assert (reply.status, reply.fault) == (
        400,
        "An error occurred when deserializing the json body of a request: "
        "unknown variant `Running`, expected `Paused` or `Resumed` at line 1 column 18.",
    )


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(Misread, match="invalid unicode code point at line 1 column"):
        read_body(machine.Vm, b'{"state":"\xff"}')


def test_nesting_has_an_end(call: Caller) -> None:
    call.accepted("PUT", "/mmds", "[" * 127 + "]" * 127)
    assert "recursion limit exceeded at line 1 column 128" in (
        call("PUT", "/mmds", "[" * 128 + "]" * 128).fault
    )
