"""What a host of simulated machines has at first: one that runs, and one to try everything with."""

from __future__ import annotations

import asyncio

from examples.console.carry_out import carry_out
from examples.console.changes import CHANGES, CREATE
from examples.console.events import Person, on_behalf_of
from examples.console.fields import Texts
from examples.console.host import Host

RUNNING, FRESH = "demo", "fresh"


async def first_machines(host: Host) -> None:
    """Create both at once; the running one has a balloon, which tells how it uses its memory."""
    await asyncio.gather(_running(host), host.create(FRESH, has_pci=True))


async def _running(host: Host) -> None:
    machine = await host.create(RUNNING, has_pci=True)
    with on_behalf_of(Person("", "The console")):
        await carry_out(machine, CREATE, form_of(host, RUNNING))
        await carry_out(machine, CHANGES["start"], {})


def form_of(host: Host, name: str) -> Texts:
    """The form that creates a machine, filled in as it is suggested."""
    texts = {
        key: value
        for section in CREATE.sections
        for key, value in section.values(None, host.suggestions).items()
    }
    size = {"machine_config.vcpu_count": "2", "machine_config.mem_size_mib": "512"}
    return {**texts, **size, "new.name": name, "new_network.host_dev_name": "tap0"}
