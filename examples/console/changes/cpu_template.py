"""The features of the host's processors that the guest sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import Field as ModelField
from pydantic import Json

from examples.console.changes.change import BEFORE_START, Change, Panel
from examples.console.fields import Field
from examples.console.forms import Section
from examples.console.machine import Machine, static_template_of
from generated_vmm import AsyncVmmClient, CpuConfig, PartialMachineConfiguration
from generated_vmm.model import ApiModel


class Template(ApiModel):
    """A custom template, as text."""

    contents: Json[CpuConfig] = ModelField(
        description="A JSON object with kvm_capabilities, cpuid_modifiers and msr_modifiers; on "
        "aarch64 reg_modifiers and vcpu_features."
    )


def _own(machine: Machine, item: str) -> Template | None:
    told = machine.told.get(OWN.key)
    return None if told is None else Template.model_construct(contents=cast(CpuConfig, told))


async def _facts(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    if (chosen := static_template_of(machine.configuration.machine_config)) != "None":
        return {"Template": chosen}
    return {"Template": "one of its own" if OWN.key in machine.told else "none"}


STATIC = Section(
    key="cpu_template",
    title="CPU template",
    model=PartialMachineConfiguration,
    fields=(
        Field(
            "cpu_template",
            "Template",
            "choice",
            choices=("None", "C3", "T2", "T2S", "T2CL", "T2A", "V1N1"),
            deprecated=True,
        ),
    ),
    send=lambda vm, fields: vm.machine_config.update(fields),
    current=lambda machine, item: machine.configuration.machine_config,
    about={"": "cpu_template"},
)
OWN = Section(
    key="cpu_config",
    title="CPU template",
    model=Template,
    fields=(Field("contents", "Template", kind="document", initial="{}"),),
    send=lambda vm, fields: vm.cpu_config.set(cast(Mapping[str, object], fields["contents"])),
    current=_own,
    about={"": "contents"},
)
CPU_TEMPLATES = Panel(
    key="cpu_templates",
    aside=True,
    facts=_facts,
    changes=(
        Change(name="cpu_template", when=BEFORE_START, sections=(STATIC,)),
        Change(name="cpu_config", when=BEFORE_START, sections=(OWN,)),
    ),
)
