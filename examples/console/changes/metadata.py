"""The document that the guest can read, and the interfaces for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from pydantic import Field as ModelField
from pydantic import Json, JsonValue

from examples.console.changes.change import ANY_TIME, BEFORE_START, Change, Panel
from examples.console.fields import Field, Fields
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import AsyncVmmClient, MmdsConfig
from generated_vmm.model import ApiModel


class Document(ApiModel):
    """The metadata, as text."""

    contents: Json[dict[str, JsonValue]] = ModelField(
        description="A JSON object. The guest reads it at 169.254.169.254."
    )


def _document(machine: Machine, item: str) -> Document | None:
    metadata = machine.metadata
    return None if metadata is None else Document.model_construct(contents=metadata)


def _contents(fields: Fields) -> Mapping[str, JsonValue]:
    return cast(Mapping[str, JsonValue], fields["contents"])


def _no_access(machine: Machine) -> str:
    if not machine.is_started or machine.configuration.mmds_config:
        return ""
    return "This machine has started without access to metadata."


async def _present(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    if _no_access(machine):
        return {}
    return {"Document": json.dumps(await vm.mmds.get(), indent=2, ensure_ascii=False)}


async def _facts(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    access = machine.configuration.mmds_config
    if access is None:
        return {"Interfaces": "No interface gives the guest access."}
    return {
        "Interfaces": ", ".join(access.network_interfaces),
        "Version": access.version or "V1",
        "Address": access.ipv4_address or "169.254.169.254",
    }


DOCUMENT = Section(
    key="document",
    title="Document",
    model=Document,
    fields=(Field("contents", "Document", kind="document", initial="{}"),),
    send=lambda vm, fields: vm.mmds.set(_contents(fields)),
    current=_document,
    about={"": "contents"},
)
PATCH = Section(
    key="patch",
    title="Parts",
    model=Document,
    fields=(Field("contents", "Members to change", kind="document"),),
    send=lambda vm, fields: vm.mmds.update(_contents(fields)),
    about={"": "contents"},
)
ACCESS = Section(
    key="access",
    title="Access",
    model=MmdsConfig,
    fields=(
        Field("network_interfaces", "Interfaces", "words"),
        Field("version", "Version", kind="choice", choices=("V2", "V1")),
        Field("ipv4_address", "Address"),
        Field("imds_compat", "Answer in plain text, as EC2 does", kind="flag"),
    ),
    send=lambda vm, fields: vm.mmds.config.set(fields),
    current=lambda machine, item: machine.configuration.mmds_config,
    about={"network interface": "network_interfaces", "ipv4": "ipv4_address"},
)
METADATA = Panel(
    key="document_panel",
    is_secret=True,
    facts=_present,
    changes=(
        Change(name="metadata", when=ANY_TIME, unless=_no_access, sections=(DOCUMENT,)),
        Change(name="metadata_patch", when=ANY_TIME, unless=_no_access, sections=(PATCH,)),
    ),
)
ACCESSES = Panel(
    key="access_panel",
    aside=True,
    facts=_facts,
    changes=(Change(name="access", when=BEFORE_START, sections=(ACCESS,)),),
)
