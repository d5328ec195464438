"""Creating a machine: its form, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final

from fastapi import Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from examples.console.account import CHECKED, Signed, Typed, for_those_who
from examples.console.carry_out import NO_FAILURE, UNRECORDED, Failure, attempt, differences
from examples.console.changes import CREATE, CREATE_FROM_SNAPSHOT, PRESETS, Change
from examples.console.changes.change import Parsed
from examples.console.changes.create import NETWORK, FromSnapshot, NewMachine
from examples.console.changes.policy import AGENT_PORT
from examples.console.changes.setup import BOOT_SOURCE, MACHINE, ROOT
from examples.console.events import EventLog
from examples.console.fields import Texts
from examples.console.host import Host
from examples.console.hosted import HostedMonitor
from examples.console.machine import NOT_STARTED, Machine
from examples.console.pages import page
from examples.console.records import RecordsError
from examples.console.shown import Form, choices_of
from examples.console.view import Visit, account, visit_of
from generated_vmm import Balloon, FullVmConfiguration, Vsock
from generated_vmm.machines import Definition, TapDevice

WAYS: Final[Mapping[str, Change]] = {"/new": CREATE, "/new/snapshot": CREATE_FROM_SNAPSHOT}
"""The pages that create a machine, by path."""
STATISTICS: Final = Balloon(amount_mib=0, deflate_on_oom=True, stats_polling_interval_s=1)
"""A balloon that takes nothing, and tells how the guest uses its memory."""


def host_of(request: Request) -> Host:
    """The host of this console's machines; 404 when it starts none."""
    monitors = request.app.state.monitors
    if not isinstance(monitors, Host):
        raise HTTPException(404, "This console starts no machines.")
    return monitors


AHost = Annotated[Host, Depends(host_of)]


router = for_those_who("administer")
"""The pages and their buttons; all are for admins."""


@router.get("/new")
@router.get("/new/snapshot")
async def new(
    request: Request, host: AHost, session: Signed, preset: str = "", snapshot: str = ""
) -> Response:
    """Show the form."""
    values = {**_suggested(host, WAYS[request.url.path]), **PRESETS.get(preset, {})}
    if snapshot:
        values["new.snapshot"] = snapshot
    return _page(host, await visit_of(request, session), values, NO_FAILURE, preset)


@router.post("/new", dependencies=CHECKED)
@router.post("/new/snapshot", dependencies=CHECKED)
async def create(request: Request, host: AHost, session: Signed, typed: Typed) -> Response:
    """Create the machine, and show it."""
    change = WAYS[request.url.path]
    made = await created(host, change, typed)
    if isinstance(made, HostedMonitor):
        return RedirectResponse(f"/machines/{made.name}?done={change.name}", 303)
    values = {name: typed.get(name, "") for name in _suggested(host, change)}
    return _page(host, await visit_of(request, session), values, made)


async def created(host: Host, change: Change, typed: Texts) -> HostedMonitor | Failure:
    """Creates the machine, as an action that is recorded; a failure leaves nothing behind."""
    log, made = EventLog(typed.get("new.name", "").strip(), host.records), list[HostedMonitor]()

    async def act(parsed: Parsed) -> None:
        make = _restored if change is CREATE_FROM_SNAPSHOT else _booted
        made.append(await make(host, parsed))

    try:
        async with log.acting(change.verb) as outcome:
            if failure := await attempt(None, change, typed, act):
                outcome.refused = failure.why
                return failure
            detail = differences(change, Machine(NOT_STARTED), typed)
            outcome.done(change.done, detail, made[0].key)
            return made[0]
    except RecordsError:
        return UNRECORDED


async def _restored(host: Host, parsed: Parsed) -> HostedMonitor:
    wish = FromSnapshot.model_validate(parsed["new"])
    host.require_free(wish.name, "new.name")
    return await host.restore(wish.snapshot.partition("/")[0], wish)


async def _booted(host: Host, parsed: Parsed) -> HostedMonitor:
    """Makes the machine, and starts it if it should; one that cannot start is gone again."""
    new = NewMachine.model_validate(parsed["new"])
    host.require_free(new.name, "new.name")
    machine = await host.create(new.name, definition_of(host, new, parsed))
    try:
        if new.start:
            await machine.start()
    except BaseException:
        await machine.delete()
        raise
    return machine


def definition_of(host: Host, new: NewMachine, parsed: Parsed) -> Definition:
    """What the form describes, with a tap device of its own if it is wanted."""
    parsed = dict(parsed)
    taps: tuple[TapDevice, ...] = ()
    if new.tap and NETWORK.key not in parsed:
        tap, parsed[NETWORK.key], argument = host.new_tap()
        taps = (tap,)
        source = parsed[BOOT_SOURCE.key]
        arguments = f"{source.get('boot_args') or ''} {argument}".strip()
        parsed[BOOT_SOURCE.key] = {**source, "boot_args": arguments}
    vsock = Vsock(guest_cid=3, uds_path="vsock.socket") if new.agent else None
    definition = Definition(
        configuration=FullVmConfiguration(balloon=STATISTICS, vsock=vsock),
        jail=host.jail,
        taps=taps,
        agent=AGENT_PORT if new.agent else None,
    )
    for section in (MACHINE, BOOT_SOURCE, ROOT, NETWORK):
        if section.key in parsed:
            definition = section.write(definition, parsed[section.key])
    return definition


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
    return values


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
