"""One process that asks many monitors each second, over how many they are."""

from __future__ import annotations

from typing import Final

from tools.benchmarks.curves.growth import tell
from tools.benchmarks.curves.pictures import Lines, Point
from tools.benchmarks.targets import Target
from tools.benchmarks.vmm_fleet import CLIENTS, took_by
from tools.benchmarks.vmm_server import fixed_answer_servers, real_monitors

MONITORS: Final = (50, 100, 200, 400, 800)
REAL: Final = (25, 50, 100)
OURS: Final = ("VmmClient", "AsyncVmmClient")
FIRST: Final = "VmmClient"


def monitors_in_a_process(binary: str = "", amounts: tuple[int, ...] = MONITORS) -> Lines:
    """Measures each client in a process of its own, at each amount; with a binary real ones too."""
    drawn: dict[str, list[Point]] = {}
    with fixed_answer_servers(max(amounts)) as paths:
        for amount in amounts:
            tell(f"asking {amount} monitors each second")
            for client in CLIENTS:
                line = f"ours, {client}" if client in OURS else client
                drawn.setdefault(line, []).append(_point(client, paths[:amount]))
    if binary:
        with real_monitors(binary, max(REAL)) as paths:
            for amount in REAL:
                tell(f"asking {amount} real monitors each second")
                line = f"ours, {FIRST}, real monitors"
                drawn.setdefault(line, []).append(_point(FIRST, paths[:amount]))
    most, cpu = drawn[f"ours, {FIRST}"][-1]
    return Lines(
        title="Monitors that one process asks each second",
        x="monitors",
        y="per cent of a core",
        lines=drawn,
        note="GET /machine-config of every monitor, once a second for five seconds; each answers "
        "the same, but for real ones. Without what the monitors take themselves.",
        targets=[Target(f"{most:g} monitors, {FIRST}", cpu, 8, "%")],
    )


def _point(client: str, paths: list[str]) -> Point:
    """How many there are, and the per cent of a core that they take."""
    return len(paths), took_by(client, paths)["cpu"]
