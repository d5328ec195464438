"""Pages from templates, with all values escaped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from examples.console.chart import BYTES, ago, lasting
from examples.console.failures import Failure
from examples.console.records import moment

STATIC: Final = Path(__file__).with_name("static")
HAS_XTERM: Final = (STATIC / "xterm" / "xterm.mjs").is_file()
"""Whether `make terminal` has built what terminals need."""
STATIC_PATH: Final = "/static"

TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"ago": ago, "lasting": lasting, "in_bytes": BYTES.told, "moment": moment}
TEMPLATES.globals |= {
    "has_xterm": HAS_XTERM,
    "static": STATIC_PATH,
    "present": lambda: datetime.now(UTC),
}

NO_STORE: Final = {"Cache-Control": "no-store"}


def attachment(name: str) -> dict[str, str]:
    """The headers of a file to download, which is not cached."""
    return {**NO_STORE, "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}


def answer(failure: Failure | None) -> Response:
    """What a program or a script learns of a change."""
    if failure is None:
        return Response(status_code=204, headers=NO_STORE)
    refusal = {"refused": failure.sentence, "fields": dict(failure.fields)}
    return JSONResponse(refusal, failure.status, headers=NO_STORE)


def streamed(content: AsyncIterator[bytes], position: str, *, is_new: bool) -> Response:
    """Output from a position on; what a screen showed before is lost if it `is_new`."""
    headers = {**NO_STORE, "Stream-Position": position, "Stream-Reset": str(int(is_new))}
    return StreamingResponse(content, media_type="application/octet-stream", headers=headers)


CONFIRMED: Final = "confirmed"
"""The input of a form that was asked about, and confirmed."""


def part(template: str, **values: object) -> str:
    """A part of a page."""
    return TEMPLATES.get_template(template).render(values)


def page(template: str, values: Mapping[str, object], *, status: int = 200) -> HTMLResponse:
    """The page of `template` with `values`; it is not cached, because only one user may see it."""
    return HTMLResponse(part(template, **values), status, headers=NO_STORE)


def question(
    asked: str,
    button: str,
    request: Request,
    typed: Mapping[str, str],
    chosen: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> HTMLResponse:
    """A page that repeats the form, with a button that confirms it; `chosen` are several values."""
    values = {
        "user": None,
        "question": asked,
        "button": button,
        "action": request.url.path,
        "typed": [*typed.items(), *((name, one) for name, all_ in chosen.items() for one in all_)],
        "confirmed": CONFIRMED,
    }
    return page("question.html", values)
