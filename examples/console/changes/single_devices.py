"""Devices of which a machine has at most one: vsock and the source of random numbers."""

from __future__ import annotations

from collections.abc import Mapping

from examples.console.changes.change import BEFORE_START, Change, Panel
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import AsyncVmmClient, EntropyDevice, Vsock


async def _of_vsock(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    vsock = machine.configuration.vsock
    if vsock is None:
        return {"Socket": "none"}
    return {"Socket": vsock.uds_path, "Address of the guest": str(vsock.guest_cid)}


async def _of_entropy(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    entropy = machine.configuration.entropy
    if entropy is None:
        return {"Device": "none"}
    return {"Device": "limited" if entropy.rate_limiter else "without limits"}


VSOCK = Section(
    key="vsock",
    title="Vsock",
    model=Vsock,
    fields=(
        Field("guest_cid", "Address of the guest", "number", initial="3"),
        Field("uds_path", "Socket on this host", places=("machine",)),
    ),
    send=lambda vm, fields: vm.vsock.set(fields),
    current=lambda machine, item: machine.configuration.vsock,
    about={"unix socket": "uds_path", "cid": "guest_cid"},
)
ENTROPY = Section(
    key="entropy",
    title="Random numbers",
    model=EntropyDevice,
    fields=rare(limits("rate_limiter", "drawn")),
    send=lambda vm, fields: vm.entropy.set(fields),
    current=lambda machine, item: machine.configuration.entropy,
)
VSOCKS = Panel(
    key="vsocks",
    aside=True,
    facts=_of_vsock,
    changes=(Change(name="vsock", when=BEFORE_START, sections=(VSOCK,)),),
)
RANDOM_NUMBERS = Panel(
    key="random",
    facts=_of_entropy,
    changes=(Change(name="entropy", when=BEFORE_START, sections=(ENTROPY,)),),
)
