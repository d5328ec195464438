"""Creating a machine: a form, and a monitor that gets its input."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from examples.console.account import Signed, for_admins
from examples.console.carry_out import NO_FAILURE, NOTHING_SENT, Failure, carry_out, parse
from examples.console.changes import CHANGES, CREATE, CREATE_FROM_SNAPSHOT, PRESETS, Change
from examples.console.events import on_behalf_of
from examples.console.fields import Texts
from examples.console.host import ROOT_DISK, Host, NameTaken
from examples.console.hosted import HostedMonitor
from examples.console.identity import User
from examples.console.pages import page
from examples.console.plain_words import Told
from examples.console.shown import Form, choices_of
from examples.console.view import Visit, account, visit_of
from fastapi_oidc import OIDC
from generated_vmm import VmmError

WAYS: Final[Mapping[str, Change]] = {"/new": CREATE, "/new/snapshot": CREATE_FROM_SNAPSHOT}
"""The pages that create a machine, by path."""


BOOT_ARGUMENTS: Final = "boot_source.boot_args"


def host_of(request: Request) -> Host:
    """The host of this console's machines; 404 when it starts none."""
    monitors = request.app.state.monitors
    if not isinstance(monitors, Host):
        raise HTTPException(404, "This console starts no machines.")
    return monitors


AHost = Annotated[Host, Depends(host_of)]


def routes(oidc: OIDC[User]) -> APIRouter:
    """The pages and their buttons; all are for admins."""
    router = for_admins(oidc)

    @router.get("/new")
    @router.get("/new/snapshot")
    async def new(
        request: Request, host: AHost, session: Signed, preset: str = "", snapshot: str = ""
    ) -> Response:
        values = {**_suggested(host, WAYS[request.url.path]), **PRESETS.get(preset, {})}
        if snapshot:
            values |= host.launch.files_of(snapshot)
        return _page(host, await visit_of(oidc, request, session), values, NO_FAILURE, preset)

    @router.post("/new")
    @router.post("/new/snapshot")
    async def create(request: Request, host: AHost, session: Signed) -> Response:
        typed = {name: str(value) for name, value in (await request.form()).items()}
        oidc.check_csrf_token(session, typed.pop("csrf_token", None))
        change = WAYS[request.url.path]
        with on_behalf_of(session.identity.person):
            created = await _created(host, change, typed)
        if not isinstance(created, Failure):
            return RedirectResponse(created, 303)
        values = {name: typed.get(name, "") for name in _suggested(host, change)}
        return _page(host, await visit_of(oidc, request, session), values, created)

    return router


async def _created(host: Host, change: Change, typed: Texts) -> str | Failure:
    """Creates the machine, and returns its URL; a failure leaves nothing behind."""
    parsed = parse(change, typed)
    if isinstance(parsed, Failure):
        return parsed
    new = parsed["new"]
    name = str(new["name"])
    try:
        machine = await host.create(name, has_pci=bool(new.get("has_pci")))
    except NameTaken as error:
        why = Told("Nothing was created: see the marked field.")
        return Failure(422, {"new.name": Told(str(error))}, why)
    except (VmmError, ValueError) as error:
        return Failure(502, at_button=Told("The monitor could not be started.", str(error)))
    failure = await _furnished(host, machine, change, typed)
    if failure is not None:
        await machine.delete()
        return failure
    if not new.get("start"):
        return f"/machines/{name}?done={change.name}"
    # A refused start is reported on the machine's own page, by pressing the button there.
    failed = await carry_out(machine, CHANGES["start"], {})
    return f"/machines/{name}?done={change.name if failed else 'start'}"


async def _furnished(
    host: Host, machine: HostedMonitor, change: Change, typed: Texts
) -> Failure | None:
    """Send the form's input to the machine, with a copy of the disk; a failure removes the copy."""
    try:
        texts = await host.with_own_disk(machine.name, typed)
    except ValueError as error:
        return Failure(422, {ROOT_DISK: Told(str(error))}, NOTHING_SENT)
    try:
        texts = await _with_network(machine, texts) if _wants_tap(texts) else texts
    except VmmError as error:
        return Failure(502, {"new.tap": Told("No network could be made.", str(error))})
    failure = await carry_out(machine, change, texts)
    if failure is not None and (copy := texts.get(ROOT_DISK)) != typed.get(ROOT_DISK):
        await asyncio.to_thread(Path(str(copy)).unlink, missing_ok=True)
    return failure


def _wants_tap(texts: Texts) -> bool:
    return bool(texts.get("new.tap")) and not texts.get("new_network.host_dev_name")


async def _with_network(machine: HostedMonitor, texts: Texts) -> Texts:
    """The form with a tap device of the machine's own, and the guest's address on it."""
    tap = await machine.make_tap()
    interface = {f"new_network.{name}": str(text) for name, text in tap.interface.items()}
    arguments = f"{texts.get(BOOT_ARGUMENTS, '')} {tap.boot_argument}".strip()
    return {**texts, **interface, BOOT_ARGUMENTS: arguments}


def _offered(host: Host, change: Change) -> Change:
    """The change with the inputs that are useful on this host."""
    if host.makes_taps:
        return change
    sections = (
        replace(one, fields=tuple(field for field in one.fields if field.name != "tap"))
        for one in change.sections
    )
    return replace(change, sections=tuple(sections))


def _suggested(host: Host, change: Change) -> Texts:
    values: dict[str, str] = {}
    suggestions = {**host.suggestions, **host.launch.latest_snapshot()}
    for section in change.sections:
        values |= section.values(None, suggestions)
    small = PRESETS["small"] if change is CREATE else {}
    return {**values, **{name: values[name] or text for name, text in small.items()}}


def _page(host: Host, visit: Visit, values: Texts, failure: Failure, preset: str = "") -> Response:
    way = WAYS[visit.path]
    change = _offered(host, way)
    shown: Mapping[str, object] = {
        "form": Form(change, values, "", failure, choices=choices_of(host.library, change)),
        "action": visit.path,
        "presets": PRESETS if way is CREATE else {},
        "preset": preset,
        **account(visit),
    }
    return page("new.html", shown, status=failure.status)
