"""Creating a machine: its form, and what it becomes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from examples.console.account import CHECKED, Typed, for_those_who
from examples.console.carry_out import differences, parse
from examples.console.changes import CREATE, CREATE_FROM_SNAPSHOT, Change
from examples.console.changes.change import Parsed
from examples.console.changes.create import NETWORK, FromSnapshot, NewMachine
from examples.console.changes.setup import AGENT_PORT, BOOT_SOURCE, MACHINE, ROOT
from examples.console.events import Done, EventLog, recorded
from examples.console.failures import Failure
from examples.console.forms import Texts
from examples.console.host import Host
from examples.console.hosted import HostedMonitor
from examples.console.monitors import NOT_STARTED, Machine
from examples.console.shown import Form, choices_of
from examples.console.view import AVisit, Visit
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
async def new(host: AHost, visit: AVisit, snapshot: str = "") -> Response:
    """Show the form."""
    chosen = {"new.snapshot": snapshot} if snapshot else {}
    return _page(host, visit, {**suggested(host, WAYS[visit.request.url.path]), **chosen})


@router.post("/new", dependencies=CHECKED)
@router.post("/new/snapshot", dependencies=CHECKED)
async def create(host: AHost, visit: AVisit, typed: Typed) -> Response:
    """Create the machine, and show it."""
    change = WAYS[visit.request.url.path]
    if failure := await created(host, change, typed):
        values = {name: typed.get(name, "") for name in suggested(host, change)}
        return _page(host, visit, values, failure)
    name = typed["new.name"].strip()
    return RedirectResponse(f"/machines/{name}?done={change.name}", 303)


Maker: TypeAlias = Callable[[Host, Parsed], Awaitable[HostedMonitor]]


async def created(host: Host, change: Change, typed: Texts) -> Failure | None:
    """Creates the machine, as an action that is recorded; a failure leaves nothing behind."""
    name, make = typed.get("new.name", "").strip(), _MAKERS[change.name]

    async def act() -> Done:
        made = await make(host, parse(change, typed))
        return Done(change.done, differences(change, Machine(NOT_STARTED), typed), made.key)

    return await recorded(EventLog(name, host.records), change.verb, act)


async def _restored(host: Host, parsed: Parsed) -> HostedMonitor:
    wish = FromSnapshot.model_validate(parsed["new"])
    return await host.restore(wish.snapshot.partition("/")[0], wish)


async def _booted(host: Host, parsed: Parsed) -> HostedMonitor:
    """Makes the machine, and starts it if it should; one that cannot start is gone again."""
    new = NewMachine.model_validate(parsed["new"])
    machine = await host.create(new.name, definition_of(host, new, parsed))
    try:
        if new.start:
            await machine.start()
    except BaseException:
        await machine.delete()
        raise
    return machine


_MAKERS: Final[Mapping[str, Maker]] = {CREATE.name: _booted, CREATE_FROM_SNAPSHOT.name: _restored}


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


def suggested(host: Host, change: Change) -> Texts:
    """The values of an empty form."""
    values: dict[str, str] = {}
    for section in change.sections:
        values |= section.values(None, host.suggestions)
    return values


def _choices(host: Host, change: Change) -> Mapping[str, Sequence[str]]:
    snapshots = [f"{one.id}/{one.name}" for one in host.machines.snapshots()]
    return {**choices_of(host.library, change), "new.snapshot": snapshots}


def _page(host: Host, visit: Visit, values: Texts, failure: Failure | None = None) -> Response:
    path = visit.request.url.path
    change = WAYS[path]
    form = Form(change, values, failure, choices=_choices(host, change))
    shown = {"form": form, "action": path, "boots": change is CREATE}
    return visit.page("new.html", shown, failure)
