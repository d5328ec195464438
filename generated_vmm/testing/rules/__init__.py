"""The state rules, written by hand: importing this declares them all."""

from generated_vmm.testing.rules import (
    balloon,
    boot,
    drives,
    memory_hotplug,
    mmds,
    network,
    outlets,
    pmem,
    snapshots,
)

__all__ = [
    "balloon",
    "boot",
    "drives",
    "memory_hotplug",
    "mmds",
    "network",
    "outlets",
    "pmem",
    "snapshots",
]
