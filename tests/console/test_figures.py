"""What is drawn, made of what a balloon, a process and lines of metrics tell."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from examples.console.figures import of_balloon, of_metrics, of_usage
from generated_vmm import BalloonStats
from generated_vmm.process import Metrics, Usage

MIB = 1 << 20


@pytest.mark.parametrize(
    ("told", "used"),
    [
        ({"total_memory": 100 * MIB, "available_memory": 60 * MIB, "free_memory": 10 * MIB}, 40),
        ({"total_memory": 100 * MIB, "free_memory": 10 * MIB}, 90),
        ({"total_memory": 10 * MIB, "available_memory": 60 * MIB}, 0),
        ({"available_memory": 60 * MIB}, None),
    ],
)
def test_what_no_program_of_the_guest_could_have_is_used(
    told: Mapping[str, int], used: float | None
) -> None:
    sizes: Mapping[str, Any] = {"target_pages": 0, "actual_pages": 0, "target_mib": 0}
    figures = of_balloon(BalloonStats(**sizes, actual_mib=16, **told))
    assert figures.get("memory") == used
    assert figures["balloon"] == 16


def test_the_processors_share_is_that_of_the_time_between() -> None:
    before, after = Usage(10.0, 5.0, MIB), Usage(12.0, 6.0, 2 * MIB)
    assert of_usage(before, after) == {"resident": 2, "processor": 50}
    assert of_usage(None, after) == {"resident": 2}
    assert of_usage(after, after) == {"resident": 2}
    assert of_usage(after, before) == {"resident": 1}


def line(seconds: float | None, **groups: Mapping[str, int]) -> Metrics:
    return Metrics(datetime.now(UTC), groups, seconds)


def test_rates_are_those_of_all_devices_of_a_kind_together() -> None:
    lines = [
        line(
            2.0,
            block_a={"read_bytes": 100, "write_bytes": 40},
            block_b={"read_bytes": 20},
            net_eth0={"rx_bytes_count": 10, "tx_bytes_count": 2},
        )
    ]
    assert of_metrics(lines) == {"read": 60, "written": 20, "received": 5, "sent": 1}


def test_lines_are_weighed_by_the_time_they_counted() -> None:
    lines = [line(9.0, block_a={"read_bytes": 90}), line(1.0, block_a={"read_bytes": 910})]
    assert of_metrics(lines)["read"] == pytest.approx(100)


def test_nothing_is_told_of_what_is_not_known() -> None:
    assert of_metrics([]) == {}
    assert of_metrics([line(None, block_a={"read_bytes": 5})]) == {}
    assert of_metrics([line(2.0, block={"read_bytes": 5})]) == {}
    known = [line(None, block_a={"read_bytes": 5}), line(2.0, block_a={"read_bytes": 6})]
    assert of_metrics(known) == {"read": 3, "written": 0}
