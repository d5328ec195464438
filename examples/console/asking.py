"""The page that asks before something is done, for browsers without script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fastapi import Request
from fastapi.responses import Response

from examples.console.pages import page

CONFIRMED = "confirmed"


def question(
    asked: str,
    button: str,
    request: Request,
    typed: Mapping[str, str],
    chosen: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Response:
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
