"""The pages: a request of a signed-in user, and the pages of one machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from examples.console.account import RIGHTS, Signed, User, oidc_of
from examples.console.carry_out import PageState
from examples.console.changes import CHANGES, PANELS
from examples.console.failures import Failure, as_sentence
from examples.console.host import Host, Snapshot
from examples.console.hosted import HostedMonitor
from examples.console.monitors import Monitor
from examples.console.output import SIZES
from examples.console.pages import page
from examples.console.shown import Attempt, Desk, power_of
from examples.console.words import TABS
from fastapi_oidc import OIDCSession
from generated_vmm.guest import CompletedProgram

OF_HOSTED: Final = frozenset({"console", "guest", "snapshots", "restart"})
"""The pages that only a machine of this console has."""
MOST_FIELDS: Final = 8
LONGEST_FIELD: Final = 8192
"""Of a form with a file."""
OWN_TEMPLATES: Final = frozenset({"overview", "console", "guest", "configuration"})


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a signed-in user for a page."""

    request: Request
    session: OIDCSession[User]

    @property
    def csrf_token(self) -> str:
        """The token of the page's forms."""
        return oidc_of(self.request).csrf_token(self.session)

    def page(
        self, template: str, values: Mapping[str, object], failure: Failure | None = None
    ) -> HTMLResponse:
        """The page, below a bar with the user, and what was refused."""
        bar = {
            "user": self.session.identity,
            "starts_machines": isinstance(self.request.app.state.monitors, Host),
            "session": self.session,
            "path": self.request.url.path,
            "csrf_token": self.csrf_token,
            "script_url": oidc_of(self.request).script_url(self.request),
            "refusal": failure.sentence if failure else "",
        }
        return page(template, {**bar, **values}, status=failure.status if failure else 200)

    @asynccontextmanager
    async def form_with_file(self) -> AsyncIterator[tuple[FormData, UploadFile]]:
        """The form of a request, and its file, which is closed after the block.

        Raises ValueError for another form, HTTPException if the user was signed out meanwhile.
        """
        form = await self._received()
        try:
            self._check(form.multi_items())
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise ValueError("choose a file")  # or it was cut off
            if not await oidc_of(self.request).is_still_signed_in(self.request):
                raise HTTPException(401, "The file is not stored: you were signed out meanwhile.")
            yield form, file
        finally:
            await form.close()

    def _check(self, form: Iterable[tuple[str, str | UploadFile]]) -> None:
        """Refuses a form without the token of its page."""
        token = str(dict(form).get("csrf_token", ""))
        oidc_of(self.request).check_csrf_token(self.session, token)

    async def _received(self) -> FormData:
        """The form, whose token is checked before a large file is stored on disk."""
        limits = {"max_files": 1, "max_fields": MOST_FIELDS, "max_part_size": LONGEST_FIELD}

        async def checked() -> AsyncGenerator[bytes]:
            async for chunk in self.request.stream():
                yield chunk  # which the parser has read when this goes on
                if self.request.scope["body"].received > MOST_FIELDS * LONGEST_FIELD:
                    self._check(parser.items)

        headers = Headers({"content-type": self.request.headers.get("content-type", "")})
        parser = MultiPartParser(headers, checked(), **limits)
        try:
            return await parser.parse()
        except MultiPartException as error:
            raise ValueError(error.message) from error


async def visit_of(request: Request, session: Signed) -> Visit:
    """The visit that a request makes."""
    return Visit(request, session)


AVisit = Annotated[Visit, Depends(visit_of)]
Ran = tuple[str, CompletedProgram]


async def machine_page(
    monitor: Monitor,
    visit: Visit,
    tab: str,
    *,
    attempt: Attempt | None = None,
    failure: Failure | None = None,
    done: str = "",
    ran: Ran | None = None,
) -> HTMLResponse:
    """One tab, even if the monitor does not respond; 404 for a tab that it does not have."""
    if tab in ("console", "guest") and not monitor.is_hosted:
        raise HTTPException(404, "This machine has no such page.")
    machine = await monitor.look()
    operation = monitor.operation
    desk = Desk(monitor, machine, visit.session.identity, attempt)
    values = {
        "monitor": monitor,
        "machine": machine,
        "state": machine.state,
        "unreachable": as_sentence(machine.fault) if machine.fault else "",
        "busy": f"Busy: {operation.in_words}." if operation is not None else "",
        "tabs": {name: title for name, title in TABS.items() if _has_tab(monitor, name)},
        "tab": tab,
        "title": TABS[tab],
        "done": done,
        "power": power_of(monitor, machine, visit.session.identity),
        "may": {right: desk.may(right) for right in RIGHTS},
        "can_create": monitor.is_hosted and visit.session.identity.may("administer"),
        "page": PageState(machine.state, monitor.run),
        "ran": ran,
        **await _of_tab(tab, desk, visit),
        "path": f"/machines/{monitor.name}/{tab}",  # of the page, also after a form
    }
    template = f"{tab}.html" if tab in OWN_TEMPLATES else "panels.html"
    return visit.page(template, values, attempt.failure if attempt else failure)


async def _of_tab(tab: str, desk: Desk, visit: Visit) -> Mapping[str, object]:
    """What only this tab shows."""
    monitor = desk.monitor
    if tab == "overview":
        if desk.machine.fault is None:  # no second request to a silent monitor
            await monitor.sample()
        return {"charts": monitor.charts(), "setup": desk.form(CHANGES["setup"])}
    if tab == "console" and isinstance(monitor, HostedMonitor):
        return {"screen": await monitor.screen(), "sizes": SIZES}
    if tab == "guest" and isinstance(monitor, HostedMonitor):
        accesses = visit.request.app.state.accesses
        giving = await accesses.shown(monitor, visit.session) if accesses else None
        return {"giving": giving, "agent_terminal": _terminal(monitor, visit)}
    panels = await desk.panels([one for one in PANELS if one.tab == tab])
    return {"panels": panels, "snapshots": await asyncio.to_thread(_snapshots, tab, monitor)}


def _snapshots(tab: str, monitor: Monitor) -> Sequence[Snapshot]:
    """The snapshots of a machine, the newest first."""
    if tab != "snapshots" or not isinstance(monitor, HostedMonitor):
        return []
    return [one for one in monitor.house.snapshots() if one.machine == monitor.key]


def _terminal(monitor: HostedMonitor, visit: Visit) -> str:
    """The terminal that the URL names, or else the one that the person has opened last."""
    named = visit.request.query_params.get("terminal", "")
    return named if named.isalnum() else monitor.terminals.get(visit.session.sub, "")


def _has_tab(monitor: Monitor, tab: str) -> bool:
    """Whether there is such a page: some are only of machines that this console starts."""
    if not monitor.is_hosted:
        return tab not in OF_HOSTED
    return tab != "guest" or monitor.definition.configuration.vsock is not None
