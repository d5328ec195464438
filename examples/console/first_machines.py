"""The first machines of a simulated host: a running one, and one to try everything with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from examples.console.carry_out import carry_out
from examples.console.changes import CHANGES, CREATE
from examples.console.creating import created
from examples.console.events import on_behalf_of
from examples.console.fields import Texts
from examples.console.host import Host
from examples.console.records import Person
from generated_vmm.machines import Definition

RUNNING, FRESH = "demo", "fresh"
BEFORE_THE_START: Final[Mapping[str, Texts]] = {
    "memory_hotplug": {"memory_hotplug.total_size_mib": "512"},
    "access": {"access.network_interfaces": "eth0", "access.version": "V2"},
}
"""Devices that must be set up before the start, by change."""
SIZE: Final[Texts] = {"machine_config.vcpu_count": "2", "machine_config.mem_size_mib": "512"}


async def first_machines(host: Host) -> None:
    """Create both at the same time; the running one has devices that are set up before a start."""
    with on_behalf_of(Person("", "The console")):
        await asyncio.gather(_running(host), host.create(FRESH, Definition()))


async def _running(host: Host) -> None:
    await created(host, CREATE, form_of(host, RUNNING))
    machine = host.get(RUNNING)
    if machine is None:
        return
    for name, texts in BEFORE_THE_START.items():
        if name in CHANGES:  # a client for an older monitor lacks some
            await carry_out(machine, CHANGES[name], texts)
    await carry_out(machine, CHANGES["metadata"], {"document.contents": '{"hostname": "demo"}'})
    await carry_out(machine, CHANGES["start"], {})


def form_of(host: Host, name: str) -> Texts:
    """The form that creates a machine which waits, with its suggested values."""
    texts = {
        key: value
        for section in CREATE.sections
        for key, value in section.values(None, host.suggestions).items()
    }
    own = {"new.name": name, "new.start": "", "new_network.host_dev_name": "tap0"}
    return {**texts, **SIZE, **own}
