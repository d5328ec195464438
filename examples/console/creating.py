"""Creating a machine: its form, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from examples.console.account import Signed, for_those_who
from examples.console.carry_out import (
    NO_FAILURE,
    NOTHING_SENT,
    UNRECORDED,
    Failure,
    carry_out,
    parse,
    refused,
    told,
    wrong_files,
)
from examples.console.changes import CHANGES, CREATE, CREATE_FROM_SNAPSHOT, PRESETS, Change
from examples.console.changes.create import BALLOON, NETWORK, FromSnapshot
from examples.console.changes.policy import AGENT_PORT
from examples.console.changes.setup import BOOT_SOURCE, MACHINE, ROOT
from examples.console.events import EventLog
from examples.console.fields import Fields, Texts
from examples.console.forms import Section
from examples.console.host import Host, NameTaken
from examples.console.hosted import HostedMonitor
from examples.console.identity import User
from examples.console.library import Place
from examples.console.pages import page
from examples.console.plain_words import Told, as_sentence
from examples.console.records import RecordsError
from examples.console.shown import Form, choices_of
from examples.console.view import Visit, account, visit_of
from fastapi_oidc import OIDC
from generated_vmm import (
    Balloon,
    BootSource,
    Drive,
    FullVmConfiguration,
    MachineConfiguration,
    NetworkInterface,
    VmmError,
    Vsock,
)
from generated_vmm.machines import Definition, MachineError, TapDevice
from generated_vmm.process import MonitorError

WAYS: Final[Mapping[str, Change]] = {"/new": CREATE, "/new/snapshot": CREATE_FROM_SNAPSHOT}
"""The pages that create a machine, by path."""
ROOT_DISK: Final = "root_drive.path_on_host"
SECTIONS: Final[Mapping[str, Section]] = {
    "/machine-config": MACHINE,
    "/boot-source": BOOT_SOURCE,
    "/drives": ROOT,
    "/network-interfaces": NETWORK,
}
"""The sections of the form, by the path of their call."""


def host_of(request: Request) -> Host:
    """The host of this console's machines; 404 when it starts none."""
    monitors = request.app.state.monitors
    if not isinstance(monitors, Host):
        raise HTTPException(404, "This console starts no machines.")
    return monitors


AHost = Annotated[Host, Depends(host_of)]


def routes(oidc: OIDC[User]) -> APIRouter:
    """The pages and their buttons; all are for admins."""
    router = for_those_who("administer")

    @router.get("/new")
    @router.get("/new/snapshot")
    async def new(
        request: Request, host: AHost, session: Signed, preset: str = "", snapshot: str = ""
    ) -> Response:
        values = {**_suggested(host, WAYS[request.url.path]), **PRESETS.get(preset, {})}
        if snapshot:
            values["new.snapshot"] = snapshot
        return _page(host, await visit_of(oidc, request, session), values, NO_FAILURE, preset)

    @router.post("/new")
    @router.post("/new/snapshot")
    async def create(request: Request, host: AHost, session: Signed) -> Response:
        typed = {name: str(value) for name, value in (await request.form()).items()}
        oidc.check_csrf_token(session, typed.pop("csrf_token", None))
        change = WAYS[request.url.path]
        made = await created(host, change, typed)
        if isinstance(made, HostedMonitor):
            done = change.name
            # A refused start is reported on the machine's own page, by pressing the button.
            if typed.get("new.start") and not await carry_out(made, CHANGES["start"], {}):
                done = "start"
            return RedirectResponse(f"/machines/{made.name}?done={done}", 303)
        values = {name: typed.get(name, "") for name in _suggested(host, change)}
        return _page(host, await visit_of(oidc, request, session), values, made)

    return router


async def created(host: Host, change: Change, typed: Texts) -> HostedMonitor | Failure:
    """Creates the machine, as an action that is recorded; a failure leaves nothing behind."""
    log = EventLog(typed.get("new.name", "").strip(), host.records)
    try:
        event = await log.begin(change.verb)
    except RecordsError:
        return UNRECORDED
    made = await _made(host, change, typed)
    if isinstance(made, HostedMonitor):
        await log.finish(event, change.done, machine_id=made.key)
    else:
        why = next(iter([*made.at_fields.values(), made.at_button or NOTHING_SENT]))
        await log.finish(event, f"Tried to {change.verb}.", why.sentence)
    return made


async def _made(host: Host, change: Change, typed: Texts) -> HostedMonitor | Failure:
    async def admit(path: str, places: Sequence[Place], *, writes: bool) -> None:
        host.library.require(path, places)

    parsed = parse(change, typed)
    if isinstance(parsed, Failure):
        return parsed
    if errors := await wrong_files(admit, change, parsed):
        return Failure(422, errors, NOTHING_SENT)
    try:
        if change is CREATE_FROM_SNAPSHOT:
            return await _restored(host, parsed["new"])
        return await _booted(host, parsed)
    except NameTaken as error:
        why = Told("Nothing was created: see the marked field.")
        return Failure(422, {"new.name": Told(str(error))}, why)
    except ValueError as error:
        return Failure(422, {ROOT_DISK: Told(as_sentence(error))}, NOTHING_SENT)
    except VmmError as error:
        section = change.sections[0]
        name = section.field_of(str(error))
        at_fields = {f"{section.key}.{name}": Told(as_sentence(error))} if name else {}
        status = 422 if isinstance(error, MachineError) else 502
        return Failure(status, at_fields, Told("The machine could not be created.", str(error)))


async def _restored(host: Host, wanted: Fields) -> HostedMonitor:
    wish = FromSnapshot.model_validate(wanted)
    return await host.restore(wish.snapshot.partition("/")[0], wish)


async def _booted(host: Host, parsed: Mapping[str, Fields]) -> HostedMonitor | Failure:
    """Makes the machine and starts its monitor; a refusal of the monitor is told at its field."""
    definition = definition_of(host, parsed)
    machine = await host.create(str(parsed["new"]["name"]), definition)
    try:
        await machine.begin(boot=False)
    except MonitorError as error:
        await machine.delete()
        if definition.taps and "tap" in str(error):
            return Failure(502, {"new.tap": Told("No network could be made.", str(error))})
        return Failure(502, at_button=Told("The monitor could not be started.", str(error)))
    except VmmError as error:
        failure = _refused_at(machine, error)
        await machine.delete()
        return failure
    except BaseException:
        await machine.delete()
        raise
    return machine


def _refused_at(machine: HostedMonitor, error: VmmError) -> Failure:
    path = error.operation.path if error.operation is not None else ""
    section = next((one for begin, one in SECTIONS.items() if path.startswith(begin)), None)
    refusal = refused(machine, section, error) if section is not None else None
    return refusal or Failure(502, at_button=told(machine, error))


def definition_of(host: Host, parsed: Mapping[str, Fields]) -> Definition:
    """What the form describes, with a tap device of its own if it is wanted."""
    new = parsed["new"]
    drive, network = parsed.get(ROOT.key), parsed.get(NETWORK.key)
    taps: tuple[TapDevice, ...] = ()
    source = dict(parsed[BOOT_SOURCE.key])
    if new.get("tap") and network is None:
        tap, network, argument = host.new_tap()
        taps = (tap,)
        source["boot_args"] = f"{source.get('boot_args') or ''} {argument}".strip()
    configuration = FullVmConfiguration(
        machine_config=MachineConfiguration.model_validate(parsed[MACHINE.key]),
        boot_source=BootSource.model_validate(source),
        drives=[Drive.model_validate(drive)] if drive else [],
        network_interfaces=[NetworkInterface.model_validate(network)] if network else [],
        balloon=Balloon.model_validate(parsed[BALLOON.key]),
        vsock=Vsock(guest_cid=3, uds_path="vsock.socket") if new.get("agent") else None,
    )
    return Definition(
        configuration=configuration,
        enable_pci=bool(new.get("has_pci")),
        jail=host.jail,
        taps=taps,
        agent=AGENT_PORT if new.get("agent") else None,
    )


def _offered(host: Host, change: Change) -> Change:
    """The form without the network of its own, unless this host can make one."""
    if host.makes_taps:
        return change
    sections = [
        replace(section, fields=tuple(one for one in section.fields if one.name != "tap"))
        for section in change.sections
    ]
    return replace(change, sections=tuple(sections))


def _suggested(host: Host, change: Change) -> Texts:
    values: dict[str, str] = {}
    for section in change.sections:
        values |= section.values(None, host.suggestions)
    small = PRESETS["small"] if change is CREATE else {}
    return {**values, **{name: values[name] or text for name, text in small.items()}}


def _choices(host: Host, change: Change) -> Mapping[str, Sequence[str]]:
    snapshots = [f"{one.id}/{one.name}" for one in host.machines.snapshots()]
    return {**choices_of(host.library, change), "new.snapshot": snapshots}


def _page(host: Host, visit: Visit, values: Texts, failure: Failure, preset: str = "") -> Response:
    way = WAYS[visit.path]
    change = _offered(host, way)
    shown: Mapping[str, object] = {
        "form": Form(change, values, "", failure, choices=_choices(host, change)),
        "action": visit.path,
        "presets": PRESETS if way is CREATE else {},
        "preset": preset,
        **account(visit),
    }
    return page("new.html", shown, status=failure.status)
