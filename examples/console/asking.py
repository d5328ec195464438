"""The page that asks before something is done, for browsers without script."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request
from fastapi.responses import Response

from examples.console.pages import page

CONFIRMED = "confirmed"


def question(asked: str, button: str, request: Request, typed: Mapping[str, str]) -> Response:
    """A page that repeats the form, with a button that confirms it."""
    values = {
        "user": None,
        "question": asked,
        "button": button,
        "action": request.url.path,
        "typed": typed,
        "confirmed": CONFIRMED,
    }
    return page("question.html", values)
