"""The document that the guest can read, and the interfaces for it."""

from __future__ import annotations

from pydantic import Field as ModelField
from pydantic import Json, JsonValue

from examples.console.changes.change import ANY_TIME, Change, Panel, Parsed, edit, sent
from examples.console.forms import Field, Fields, Section
from examples.console.hosted import HostedMonitor
from examples.console.monitors import Machine
from generated_vmm import AsyncVmmClient, MmdsConfig
from generated_vmm.machines import Definition
from generated_vmm.model import ApiModel


class Document(ApiModel):
    """The metadata, as text."""

    contents: Json[dict[str, JsonValue]] = ModelField(
        description="A JSON object. The guest reads it at 169.254.169.254."
    )


def _document(definition: Definition, item: str) -> Document | None:
    told = definition.metadata
    return None if told is None else Document.model_construct(contents=told)


def _no_access(machine: Machine) -> str:
    if not machine.is_started or machine.configuration.mmds_config:
        return ""
    return "This machine has started without access to metadata."


async def _set(vm: AsyncVmmClient, fields: Fields) -> None:
    await vm.mmds.set(Definition.model_validate({"metadata": fields["contents"]}).metadata or {})


send = sent(_set, lambda definition, fields: {"metadata": fields["contents"]})


async def _save(monitor: HostedMonitor, parsed: Parsed) -> None:
    if monitor.stage is None:
        await send(monitor, parsed)
    else:
        contents = parsed[DOCUMENT.key]["contents"]
        await monitor.edit(monitor.machine.definition.replace(metadata=contents))


DOCUMENT = Section(
    key="document",
    title="Document",
    model=Document,
    fields=(Field("contents", "Document", kind="document", initial="{}"),),
    current=_document,
)
ACCESS = Section(
    key="access",
    title="Access",
    model=MmdsConfig,
    member="mmds_config",
    fields=(
        Field("network_interfaces", "Interfaces", "words"),
        Field("version", "Version", kind="choice", choices=("V2", "V1")),
        Field("ipv4_address", "Address"),
        Field("imds_compat", "Answer in plain text, as EC2 does", kind="flag"),
    ),
)
METADATA = Panel(
    key="document_panel",
    is_secret=True,
    changes=(
        Change(
            name="metadata",
            when=ANY_TIME,
            unless=_no_access,
            sections=(DOCUMENT,),
            act=send,
            of_hosted=_save,
        ),
    ),
)
ACCESSES = Panel(key="access_panel", aside=True, changes=(edit("access", ACCESS),))
