"""How fast the monitor client is, beside its peers: `python -m benchmarks.vmm`.

Calls go over unix sockets to a server process with one fixed answer; the clients take turns. A call
of ours includes the model it returns, a peer's ends with the bytes of the body.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack

import httpx

from benchmarks.rounds import medians, repeated
from benchmarks.vmm_calls import async_cases, batch_in, sync_cases
from benchmarks.vmm_server import fixed_answer_server
from generated_vmm import AsyncVmmClient, FullVmConfiguration, MachineConfiguration, VmmClient

ROUNDS = 41
CALLS = 100
IMPORT = """
import time, httpx, pydantic
began = time.perf_counter()
{}
print((time.perf_counter() - began) * 1e3)
"""
OURS = "import generated_vmm"
PYDANTIC = "from pydantic import BaseModel, RootModel, TypeAdapter, GetCoreSchemaHandler"
VM_CONFIG = json.dumps(
    {
        "balloon": None,
        "drives": [
            {
                "drive_id": "rootfs",
                "partuuid": None,
                "is_root_device": True,
                "cache_type": "Unsafe",
                "is_read_only": False,
                "path_on_host": "/vm/rootfs.ext4",
                "rate_limiter": None,
                "io_engine": "Sync",
                "socket": None,
            }
        ],
        "boot-source": {
            "kernel_image_path": "/vm/vmlinux",
            "initrd_path": None,
            "boot_args": "console=ttyS0 reboot=k panic=1",
        },
        "cpu-config": None,
        "logger": None,
        "machine-config": {
            "vcpu_count": 2,
            "mem_size_mib": 512,
            "smt": False,
            "track_dirty_pages": False,
            "huge_pages": "None",
        },
        "metrics": None,
        "mmds-config": None,
        "network-interfaces": [
            {
                "iface_id": "eth0",
                "host_dev_name": "tap0",
                "guest_mac": "06:00:00:00:00:01",
                "mtu": None,
                "rx_rate_limiter": None,
                "tx_rate_limiter": None,
            }
        ],
        "pmem": [],
        "vsock": {"guest_cid": 3, "uds_path": "/vm/v.sock"},
        "entropy": None,
        "memory-hotplug": None,
    }
).encode()


def main() -> None:
    with fixed_answer_server() as path:
        show_calls(call_figures(path))
        show_construction(path)
    show_models()
    show_import()


def call_figures(path: str) -> dict[str, float]:
    """Microseconds for one GET by each client."""
    with asyncio.Runner() as runner, ExitStack() as opened:
        stack = AsyncExitStack()
        waiting = runner.run(async_cases(path, stack))
        cases = sync_cases(path, opened)
        cases |= {name: batch_in(runner, call) for name, call in waiting.items()}
        figures = medians(cases, rounds=ROUNDS, calls=CALLS)
        runner.run(stack.aclose())
    return figures


def show_calls(figures: Mapping[str, float]) -> None:
    print(f"GET /machine-config over a unix socket, {ROUNDS} rounds of {CALLS} calls, µs:")
    for name, microseconds in figures.items():
        print(f"  {name:<24}{microseconds:8.1f}   x {microseconds / figures['bare socket']:.2f}")
    ours, waiting = figures["ours, sync"], figures["ours, async"]
    print(f"  ours / http.client:  {ours / figures['http.client']:.2f} (target: at most 1.1)")
    print(f"  ours / bare socket:  {ours / figures['bare socket']:.2f} (target: at most 1.7)")
    print(f"  ours async / aiohttp: {waiting / figures['aiohttp']:.2f} (target: at most 1)")


def show_construction(path: str) -> None:
    cases = {
        "VmmClient": repeated(lambda: VmmClient(path)),
        "AsyncVmmClient": repeated(lambda: AsyncVmmClient(path)),
    }
    figures = medians(cases, rounds=ROUNDS, calls=CALLS)
    heavy = {"httpx.HTTPTransport(uds=)": repeated(lambda: httpx.HTTPTransport(uds=path))}
    figures |= medians(heavy, rounds=5, calls=5)
    print("\nMaking a client, µs (target: below 100):")
    for name, microseconds in figures.items():
        print(f"  {name:<28}{microseconds:10.1f}")


def show_models() -> None:
    machine = MachineConfiguration(vcpu_count=2, mem_size_mib=512)
    cases = {
        "GET /vm/config to its model": lambda: FullVmConfiguration.from_answer(VM_CONFIG),
        "the same, json.loads": lambda: json.loads(VM_CONFIG),
        "MachineConfiguration(...)": lambda: MachineConfiguration(vcpu_count=2, mem_size_mib=512),
        "MachineConfiguration to JSON": machine.to_json,
    }
    figures = medians(
        {name: repeated(call) for name, call in cases.items()}, rounds=ROUNDS, calls=CALLS
    )
    print(f"\nModels, µs (target: GET /vm/config, {len(VM_CONFIG)} bytes, in at most 15):")
    for name, microseconds in figures.items():
        print(f"  {name:<32}{microseconds:6.1f}")


def show_import() -> None:
    ours, pydantic = [], []
    for _ in range(15):
        ours.append(import_time(OURS))
        pydantic.append(import_time(PYDANTIC))
    whole, loaded = statistics.median(ours), statistics.median(pydantic)
    print(f"\nimport generated_vmm after `import httpx, pydantic`: {whole:.1f} ms, of which")
    print(f"  pydantic's own parts, which it loads at their first use: {loaded:.1f} ms")
    print(f"  the rest: {whole - loaded:.1f} ms (target: at most 60)")


def import_time(statement: str) -> float:
    """Milliseconds for an import in a fresh process."""
    command = [sys.executable, "-c", IMPORT.format(statement)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
