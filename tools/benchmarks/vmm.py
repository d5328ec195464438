"""How fast the monitor client is, beside its peers: `tools.benchmarks.vmm [--monitor BINARY]`.

Calls go to a process with one fixed answer and, with a monitor in FIRECRACKER_BIN or after
`--monitor`, to that too. A call of ours reads or writes a model, a peer's has the bytes of the
body. Go and its SDK are no peers: they take a compiler that nothing else here needs, and nobody
chooses between a library of Python and one of Go for its speed. Exits with 1 when a target was
missed, and says which.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack

import httpx

from generated_vmm import AsyncVmmClient, VmmClient
from tools.benchmarks.rounds import Cost, costs, repeated
from tools.benchmarks.targets import Target, report
from tools.benchmarks.vmm_calls import METHODS, async_cases, batch_in, sync_cases
from tools.benchmarks.vmm_fleet import fleet_targets
from tools.benchmarks.vmm_imports import import_targets
from tools.benchmarks.vmm_models import model_targets
from tools.benchmarks.vmm_node import NAME as NODE
from tools.benchmarks.vmm_node import node
from tools.benchmarks.vmm_server import PATH, fixed_answer_servers, real_monitors

ROUNDS = 61
CALLS = 100
REAL = "a real monitor"


def main() -> int:
    """Measures everything and prints it; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.vmm")
    parser.add_argument("--monitor", default=os.environ.get("FIRECRACKER_BIN", ""))
    return report(list(vmm_targets(parser.parse_args().monitor)))


def vmm_targets(binary: str) -> Iterator[Target]:
    """Measures everything, shows the figures and says what was aimed at.

    Calls go to a process with a fixed answer and, with a binary, to a real monitor.
    """
    with fixed_answer_servers(1) as (path,):
        yield from call_targets(path, "a fixed answer")
        yield from construction_targets(path)
    if binary:
        with real_monitors(binary) as (path,):
            yield from call_targets(path, REAL)
    yield from model_targets()
    yield from import_targets()
    yield from fleet_targets(binary)


def call_targets(path: str, asked: str) -> Iterator[Target]:
    """Measures calls, shows the figures and says what was aimed at."""
    for method in METHODS:
        figures = call_costs(method, path)
        print(f"\n{method} {PATH}, {asked}, µs, medians of {ROUNDS} rounds of {CALLS} calls:")
        show_calls(figures)
        yield from compared(f"{method}, {asked}", figures)


def compared(what: str, figures: Mapping[str, Cost]) -> Iterator[Target]:
    """What was aimed at."""
    ours, waiting = figures["VmmClient"], figures["AsyncVmmClient"]
    bare, standard, peer = figures["bare socket"], figures["http.client"], figures["aiohttp"]
    # A fixed answer comes in less than half the time that a monitor takes.
    most = 1.5 if what.endswith(REAL) else 3
    yield Target(f"{what}: VmmClient / bare socket", ours.wall_ratio(bare), most)
    yield Target(f"{what}: VmmClient / http.client", ours.wall_ratio(standard), 0.7)
    yield Target(f"{what}: VmmClient / http.client, CPU", ours.cpu_ratio(standard), 0.5)
    yield Target(f"{what}: AsyncVmmClient / aiohttp", waiting.wall_ratio(peer), 0.9)
    yield Target(f"{what}: AsyncVmmClient / aiohttp, CPU", waiting.cpu_ratio(peer), 0.9)


def call_costs(
    method: str, path: str, *, rounds: int = ROUNDS, calls: int = CALLS
) -> dict[str, Cost]:
    """What one call costs by each client."""
    with asyncio.Runner() as runner, ExitStack() as opened:
        stack = AsyncExitStack()
        waiting = runner.run(async_cases(method, path, stack))
        others = opened.enter_context(node(method, path))
        cases = sync_cases(method, path, opened)
        cases |= {name: batch_in(runner, call) for name, call in waiting.items()}
        figures = costs(cases | others, rounds=rounds, calls=calls)
        runner.run(stack.aclose())
        return figures | {name: case.told(rounds) for name, case in others.items()}


def show_calls(figures: Mapping[str, Cost]) -> None:
    bare = figures["bare socket"]
    print(f"  {'':<30}{'wall':>8}{'CPU':>8}   {'wall / bare':>11}{'CPU / bare':>12}")
    for name, cost in figures.items():
        times = f"{cost.median_wall:8.1f}{cost.median_cpu:8.1f}"
        print(f"  {name:<30}{times}   {cost.wall_ratio(bare):11.2f}{cost.cpu_ratio(bare):12.2f}")
    if NODE not in figures:
        print("  Node not measured: there is no node")


def construction_targets(path: str) -> Iterator[Target]:
    """Measures how long it takes to make a client."""
    cases = {
        "VmmClient": repeated(lambda: VmmClient(path)),
        "AsyncVmmClient": repeated(lambda: AsyncVmmClient(path)),
    }
    figures = costs(cases, rounds=ROUNDS, calls=CALLS)
    heavy = {"httpx.HTTPTransport(uds=)": repeated(lambda: httpx.HTTPTransport(uds=path))}
    figures |= costs(heavy, rounds=5, calls=5)
    print("\nMaking a client, µs:")
    for name, cost in figures.items():
        print(f"  {name:<28}{cost.median_wall:10.1f}")
    yield Target("making a VmmClient", figures["VmmClient"].median_wall, 100, "µs")


if __name__ == "__main__":
    sys.exit(main())
