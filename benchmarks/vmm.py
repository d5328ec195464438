"""How fast the monitor client is, beside its peers: `python -m benchmarks.vmm [--monitor BINARY]`.

Calls go to the monitor in FIRECRACKER_BIN or after `--monitor`, else to a process with one fixed
answer. A call of ours includes the model it returns, a peer's ends with the bytes of the body.
Exits with 1 when a target was missed, and says which.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager

import httpx

from benchmarks.rounds import Cost, costs, repeated
from benchmarks.targets import Target, report
from benchmarks.vmm_calls import async_cases, batch_in, sync_cases
from benchmarks.vmm_fleet import fleet_targets
from benchmarks.vmm_imports import import_targets
from benchmarks.vmm_models import model_targets
from benchmarks.vmm_server import fixed_answer_servers, real_monitor
from generated_vmm import AsyncVmmClient, VmmClient

ROUNDS = 61
CALLS = 100


def main() -> int:
    """Measures everything and prints it; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vmm")
    parser.add_argument("--monitor", default=os.environ.get("FIRECRACKER_BIN", ""))
    return report(list(vmm_targets(parser.parse_args().monitor)))


def vmm_targets(binary: str) -> Iterator[Target]:
    """Measures everything, shows the figures and says what was aimed at."""
    with monitor(binary) as path:
        yield from call_targets(path, is_real=bool(binary))
        yield from construction_targets(path)
    yield from model_targets()
    yield from import_targets()
    yield from fleet_targets()


@contextmanager
def monitor(binary: str) -> Iterator[str]:
    """The socket of something to ask."""
    if binary:
        with real_monitor(binary) as path:
            yield path
    else:
        with fixed_answer_servers(1) as (path,):
            yield path


def call_targets(path: str, *, is_real: bool) -> Iterator[Target]:
    """Measures calls, shows the figures and says what was aimed at."""
    figures = call_costs(path)
    kind = "a real monitor" if is_real else "a fixed answer"
    print(f"GET /machine-config of {kind}, µs, medians of {ROUNDS} rounds of {CALLS} calls:")
    show_calls(figures)
    ours, waiting = figures["VmmClient"], figures["AsyncVmmClient"]
    bare, standard, peer = figures["bare socket"], figures["http.client"], figures["aiohttp"]
    # A fixed answer comes in less than half the time that a monitor takes.
    yield Target("VmmClient / bare socket, wall", ours.wall_ratio(bare), 1.5 if is_real else 3)
    yield Target("VmmClient / http.client, wall", ours.wall_ratio(standard), 0.7)
    yield Target("VmmClient / http.client, CPU", ours.cpu_ratio(standard), 0.5)
    yield Target("AsyncVmmClient / aiohttp, wall", waiting.wall_ratio(peer), 0.9)
    yield Target("AsyncVmmClient / aiohttp, CPU", waiting.cpu_ratio(peer), 0.9)


def call_costs(path: str) -> dict[str, Cost]:
    """What one GET costs by each client."""
    with asyncio.Runner() as runner, ExitStack() as opened:
        stack = AsyncExitStack()
        waiting = runner.run(async_cases(path, stack))
        cases = sync_cases(path, opened)
        cases |= {name: batch_in(runner, call) for name, call in waiting.items()}
        figures = costs(cases, rounds=ROUNDS, calls=CALLS)
        runner.run(stack.aclose())
    return figures


def show_calls(figures: dict[str, Cost]) -> None:
    bare = figures["bare socket"]
    print(f"  {'':<24}{'wall':>8}{'CPU':>8}   {'wall / bare':>11}{'CPU / bare':>12}")
    for name, cost in figures.items():
        times = f"{cost.median_wall:8.1f}{cost.median_cpu:8.1f}"
        print(f"  {name:<24}{times}   {cost.wall_ratio(bare):11.2f}{cost.cpu_ratio(bare):12.2f}")


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
