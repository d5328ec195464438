"""The events: a search by machine, person and time, and downloads."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Depends, HTTPException, Query, Request
from fastapi.responses import Response, StreamingResponse

from examples.console.account import Signed, for_all
from examples.console.identity import User
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


def search_of(
    machine: str = "",
    person: str = "",
    text: str = "",
    begin: str = "",
    end: str = "",
    refused: bool = False,
    before: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
) -> Search:
    """The search of the form, with whole days in UTC."""
    return Search(
        machine=machine.strip(),
        person=person.strip(),
        text=text.strip(),
        begin=_day(begin),
        end=_day(end, after=1),
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


def _day(text: str, *, after: int = 0) -> datetime | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text) + timedelta(days=after)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise HTTPException(422, "Write a day as in 2026-01-31.") from error


router = for_all()
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
async def export(
    request: Request, session: Signed, search: ASearch, form: Literal["csv", "jsonl"] = "csv"
) -> Response:
    """All that is found, as a file."""
    monitors = monitors_of(request)
    content = _exported(monitors.records, among(search, monitors, session.identity), form)
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/jsonl"
    return StreamingResponse(content, media_type=kind, headers=attachment(f"events.{form}"))


async def _exported(records: Records, search: Search, form: str) -> AsyncIterator[str]:
    """All events of the search, the newest first, a part at a time."""
    yield ",".join(COLUMNS) + "\r\n" if form == "csv" else ""
    part = replace(search, before=None)
    while found := await asyncio.to_thread(records.events, part, EXPORTED_EVENTS):
        yield await asyncio.to_thread(as_csv if form == "csv" else as_json_lines, found)
        part = replace(search, before=found[-1].id)


def as_csv(events: Sequence[Event]) -> str:
    """One line for each event; no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    for cells in _cells(events):
        writer.writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells])
    return text.getvalue()


def as_json_lines(events: Sequence[Event]) -> str:
    """One JSON object for each event."""
    lines = (dict(zip(COLUMNS, cells, strict=True)) for cells in _cells(events))
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def _cells(events: Sequence[Event]) -> Iterator[tuple[str, ...]]:
    for one in events:
        at = one.at.isoformat(timespec="milliseconds")
        who = one.by.name, one.by.sub, one.address
        what = one.what, one.refused, str(one.times), one.detail
        yield at, one.machine, one.machine_id, *who, *what
