"""The events: a search by machine, person and time, and downloads."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BeforeValidator

from examples.console.account import Signed, User
from examples.console.monitors import Monitors
from examples.console.pages import attachment
from examples.console.records import Event, Records, Search
from examples.console.routes import monitors_of
from examples.console.view import AVisit

PAGE_EVENTS: Final = 50
EXPORTED_EVENTS: Final = 1_000
"""How many events of an export are read at once."""
COLUMNS: Final = (
    *("at", "machine", "machine_id", "person", "sub", "address"),
    *("what", "refused", "times", "detail"),
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a formula in spreadsheets."""


Day = Annotated[date | None, BeforeValidator(lambda text: text or None)]


def search_of(
    machine: str = "",
    person: str = "",
    text: str = "",
    begin: Day = None,
    end: Day = None,
    refused: bool = False,
    before: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
) -> Search:
    """The search of the form, with whole days in UTC."""
    return Search(
        machine=machine.strip(),
        person=person.strip(),
        text=text.strip(),
        begin=datetime.combine(begin, time.min, UTC) if begin else None,
        end=datetime.combine(end, time.max, UTC) if end else None,
        only_refused=refused,
        before=before,
    )


def viewed(monitors: Monitors, user: User) -> list[str]:
    """The names of the machines that the user may view."""
    return [one.name for one in monitors.all if user.may("view", one.name)]


def among(search: Search, monitors: Monitors, user: User) -> Search:
    """The search among what the user may view."""
    return search if user.may("view") else replace(search, seen=tuple(viewed(monitors, user)))


ASearch = Annotated[Search, Depends(search_of)]


router = APIRouter()
"""The page and the downloads."""


@router.get("/events")
async def events(visit: AVisit, search: ASearch) -> Response:
    """Show what was found."""
    monitors, user = monitors_of(visit.request), visit.session.identity
    search = among(search, monitors, user)
    found = await asyncio.to_thread(monitors.records.events, search, PAGE_EVENTS + 1)
    asked = {name: text for name, text in visit.request.query_params.items() if text}
    values = {
        "events": found[:PAGE_EVENTS],
        "asked": asked,
        "older": found[PAGE_EVENTS - 1].id if len(found) > PAGE_EVENTS else None,
        "machines": viewed(monitors, user),
    }
    return visit.page("events.html", values)


@router.get("/events/export")
async def export(request: Request, session: Signed, search: ASearch) -> Response:
    """All that is found, as a file."""
    monitors = monitors_of(request)
    content = _exported(monitors.records, among(search, monitors, session.identity))
    headers = attachment("events.csv")
    return StreamingResponse(content, media_type="text/csv; charset=utf-8", headers=headers)


async def _exported(records: Records, search: Search) -> AsyncIterator[str]:
    """All events of the search, the newest first, a part at a time."""
    yield ",".join(COLUMNS) + "\r\n"
    part = replace(search, before=None)
    while found := await asyncio.to_thread(records.events, part, EXPORTED_EVENTS):
        yield await asyncio.to_thread(as_csv, found)
        part = replace(search, before=found[-1].id)


def as_csv(events: Sequence[Event]) -> str:
    """One line for each event; no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    for one in events:
        at = one.at.isoformat(timespec="milliseconds")
        who = one.by.name, one.by.sub, one.address
        what = one.what, one.refused, str(one.times), one.detail
        cells = at, one.machine, one.machine_id, *who, *what
        writer.writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells])
    return text.getvalue()
