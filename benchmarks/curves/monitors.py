"""One process that asks many monitors each second, over how many they are."""

from __future__ import annotations

from typing import Final

from benchmarks.curves.growth import tell
from benchmarks.curves.pictures import Lines, Point
from benchmarks.targets import Target
from benchmarks.vmm_fleet import CLIENTS, took_by
from benchmarks.vmm_server import fixed_answer_servers

MONITORS: Final = (50, 100, 200, 400, 800)
OURS: Final = ("VmmClient", "AsyncVmmClient")


def monitors_in_a_process(amounts: tuple[int, ...] = MONITORS) -> Lines:
    """Measures each client in a process of its own, at each amount."""
    drawn: dict[str, list[Point]] = {}
    with fixed_answer_servers(max(amounts)) as paths:
        for amount in amounts:
            tell(f"asking {amount} monitors each second")
            for client in CLIENTS:
                line = f"ours, {client}" if client in OURS else client
                took = took_by(client, paths[:amount])
                drawn.setdefault(line, []).append((amount, took["cpu"]))
    return Lines(
        title="Monitors that one process asks each second",
        x="monitors",
        y="per cent of a core",
        lines=drawn,
        note="GET /machine-config of every monitor, once a second for five seconds; each answers "
        "the same. Without what the monitors take themselves.",
        targets=[
            Target(f"{amounts[-1]} monitors, VmmClient", _last(drawn, "ours, VmmClient"), 8, "%")
        ],
    )


def _last(drawn: dict[str, list[Point]], line: str) -> float:
    return drawn[line][-1][1]
