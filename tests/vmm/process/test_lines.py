"""The lines that a monitor writes, from bytes to values."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generated_vmm.process.lines import (
    LONGEST_LINE,
    Lines,
    LogLine,
    MetricsReader,
    parse_log_line,
)

WRITTEN = datetime(2026, 11, 21, 14, 40, 37, 243521)


@given(st.lists(st.binary()))
def test_lines_do_not_depend_on_how_the_bytes_come(pieces: list[bytes]) -> None:
    in_pieces, at_once = Lines(str), Lines(str)
    found = [line for piece in pieces for line in in_pieces.feed(piece)]
    assert found == list(at_once.feed(b"".join(pieces)))
    assert len(found) == b"".join(pieces).count(b"\n")


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    lines = Lines(str)
    for _ in range(3):
        assert list(lines.feed(b"x" * LONGEST_LINE)) == []
    assert list(lines.feed(b"x\nnext\n")) == [("next", 4)]


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert list(Lines(str).feed(b"a\xffb\n")) == [("a\ufffdb", 3)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "2026-11-21T14:40:37.243521075 [vm-1:main] Running Firecracker v1.16.1",
            {"message": "Running Firecracker v1.16.1", "thread": "main"},
        ),
        (
            "2026-11-21T14:40:37.243521075 [vm-1:fc_vcpu 0:WARN] a [text]",
            {"message": "a [text]", "thread": "fc_vcpu 0", "level": "WARN"},
        ),
        (
            "2026-11-21T14:40:37.243521075 [vm-1:fc_api:INFO:src/a/b.rs:85] started",
            {
                "message": "started",
                "thread": "fc_api",
                "level": "INFO",
                "origin": "src/a/b.rs:85",
            },
        ),
        (
            "2026-11-21T14:40:37.243521075 [vm-1:fc_api:src/a/b.rs:85] started",
            {"message": "started", "thread": "fc_api", "origin": "src/a/b.rs:85"},
        ),
    ],
)
def test_a_log_line_says_when_who_and_what(text: str, expected: dict[str, Any]) -> None:
    assert parse_log_line(text) == LogLine(text, at=WRITTEN, instance_id="vm-1", **expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        'Error: ParseArguments(UnexpectedArgument("bogus"))',
        "2026-11-21T14:40:37.243521075 no brackets",
        "2026-99-99T14:40:37.243521075 [vm-1:main] no day",
    ],
)
def test_what_no_logger_wrote_is_a_message(text: str) -> None:
    assert parse_log_line(text) == LogLine(text, text)


@given(st.text())
def test_any_line_can_be_in_a_log(text: str) -> None:
    assert parse_log_line(text).text == text


def line(milliseconds: int, **groups: dict[str, Any]) -> str:
    return json.dumps({"utc_timestamp_ms": milliseconds, **groups})


def test_counters_become_rates_between_two_lines() -> None:
    reader = MetricsReader()
    group = {"read_bytes": 4096, "write_bytes": 512, "read_count": 8, "write_count": 1}
    reader.read(line(1_000))
    metrics = reader.read(line(3_000, block=group, block_rootfs=group))
    assert metrics is not None
    assert metrics.at == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert metrics.seconds == 2.0
    assert metrics.count("block", "read_bytes") == 4096
    assert metrics.rate("block", "read_bytes") == 2048.0
    assert metrics.rates is not None
    assert metrics.rates.seconds == 2.0
    drive = metrics.rates.drives["rootfs"]
    assert (drive.read_bytes, drive.write_bytes, drive.reads, drive.writes) == (2048, 256, 4, 0.5)


def test_each_network_interface_has_its_rates() -> None:
    reader = MetricsReader()
    reader.read(line(0))
    names = ("rx_bytes_count", "tx_bytes_count", "rx_packets_count", "tx_packets_count")
    groups = {f"net_eth{n}": {name: n * 10 + i for i, name in enumerate(names)} for n in (0, 1)}
    metrics = reader.read(line(1_000, net={"rx_bytes_count": 99}, **groups))
    assert metrics is not None
    assert metrics.rates is not None
    assert set(metrics.rates.network_interfaces) == {"eth0", "eth1"}
    interface = metrics.rates.network_interfaces["eth1"]
    assert (interface.rx_bytes, interface.tx_bytes) == (10, 11)
    assert (interface.rx_packets, interface.tx_packets) == (12, 13)


def test_the_first_line_has_no_rates() -> None:
    metrics = MetricsReader().read(line(1_000, vcpu={"exit_io_in": 5}))
    assert metrics is not None
    assert metrics.count("vcpu", "exit_io_in") == 5
    assert (metrics.seconds, metrics.rates, metrics.rate("vcpu", "exit_io_in")) == (None,) * 3


def test_after_a_lost_line_it_is_not_known_how_long_was_counted() -> None:
    """A monitor that finds its fifo full writes a line in part, and begins to count anew."""
    reader = MetricsReader()
    whole = line(2_000, vcpu={"exit_io_in": 5})
    reader.read(line(1_000))
    assert reader.read(whole[: len(whole) // 2]) is None
    after, next_one = reader.read(line(3_000)), reader.read(line(4_000))
    assert after is not None
    assert next_one is not None
    assert (after.seconds, next_one.seconds) == (None, 1.0)


@pytest.mark.parametrize("milliseconds", [1_000, 500])
def test_a_clock_that_does_not_go_on_gives_no_rates(milliseconds: int) -> None:
    reader = MetricsReader()
    reader.read(line(1_000))
    metrics = reader.read(line(milliseconds))
    assert metrics is not None
    assert metrics.rates is None


def test_an_unknown_counter_is_nothing() -> None:
    metrics = MetricsReader().read(line(0, vcpu={"agg": {"min_us": 1}}))
    assert metrics is not None
    assert metrics.count("vcpu", "agg") == metrics.count("no", "such") == 0


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_what_is_no_metrics_is_none(text: str) -> None:
    assert MetricsReader().read(text) is None


@pytest.mark.parametrize("at", ["null", '"x"', "1e400", "99999999999999999", "{}", "true" * 2])
def test_metrics_of_no_time_are_none(at: str) -> None:
    assert MetricsReader().read('{"utc_timestamp_ms": ' + at + "}") is None
