"""The document that the guest can read, and through which interfaces."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import cast

from pydantic import Field as ModelField
from pydantic import Json, JsonValue

from examples.console.changes.change import ANY_TIME, BEFORE_START, Change
from examples.console.forms import Field, Fields, Section
from examples.console.machine import Machine
from generated_vmm import AsyncVmmClient, MmdsConfig
from generated_vmm.model import ApiModel


class Document(ApiModel):
    """The metadata as somebody types it."""

    contents: Json[dict[str, JsonValue]] = ModelField(
        description="A JSON object. The guest reads it at 169.254.169.254."
    )


def _document(machine: Machine) -> Document | None:
    metadata = machine.metadata
    return None if metadata is None else Document.model_construct(contents=metadata)


def _send(vm: AsyncVmmClient, fields: Fields) -> Awaitable[None]:
    return vm.mmds.set(cast(Mapping[str, JsonValue], fields["contents"]))


DOCUMENT = Section(
    key="document",
    title="Document",
    model=Document,
    fields=(Field("contents", "Document", kind="document", initial="{}"),),
    send=_send,
    current=_document,
    about={"": "contents"},
)
ACCESS = Section(
    key="access",
    title="Access",
    model=MmdsConfig,
    fields=(
        Field("network_interfaces", "Interfaces", "words", hint="Names, separated by spaces."),
        Field("version", "Version", kind="choice", choices=("V2", "V1")),
        Field("ipv4_address", "Address"),
        Field("imds_compat", "Answer in plain text, as EC2 does", kind="flag"),
    ),
    send=lambda vm, fields: vm.mmds.config.set(fields),
    current=lambda machine: machine.configuration.mmds_config,
    about={"network interface": "network_interfaces", "ipv4": "ipv4_address"},
)
METADATA_CHANGES = (
    Change(
        name="metadata",
        tab="metadata",
        button="Save document",
        working="Saving…",
        done="Document saved.",
        verb="change the metadata",
        when=ANY_TIME,
        sections=(DOCUMENT,),
    ),
    Change(
        name="access",
        tab="metadata",
        button="Save access",
        working="Saving…",
        done="Access saved.",
        verb="change the metadata",
        when=BEFORE_START,
        sections=(ACCESS,),
    ),
)
