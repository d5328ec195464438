"""Parameters and refusals, as all endpoints use them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import parse_qsl

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import JSONResponse

Parameters: TypeAlias = Mapping[str, str]

NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class Refusal(Exception):
    """An OAuth error: the code and sentence for the client (RFC 6749 4.1.2.1 and 5.2)."""

    def __init__(
        self,
        error: str,
        description: str,
        *,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status
        self.headers = dict(headers or {})

    def members(self) -> dict[str, str]:
        """The error as parameters or as members of a JSON response."""
        return {"error": self.error, "error_description": self.description}

    def answer(self) -> JSONResponse:
        """The error as JSON, never cached."""
        return json_answer(self.members(), status=self.status, headers=self.headers)


def json_answer(
    members: Mapping[str, JsonValue] | Mapping[str, str],
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A JSON response that caches must not store."""
    return JSONResponse(members, status_code=status, headers=NO_STORE | dict(headers or {}))


async def form_parameters(request: Request) -> dict[str, str]:
    """The form in the body of a POST; other bodies are refused (RFC 6749 3.2)."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise Refusal("invalid_request", "the body must be application/x-www-form-urlencoded")
    return single_valued((await request.body()).decode("utf-8", "replace"))


async def request_parameters(request: Request) -> dict[str, str]:
    """The form of a POST, else the query."""
    if request.method == "POST":
        return await form_parameters(request)
    return single_valued(request.url.query)


def single_valued(encoded: str) -> dict[str, str]:
    """The parameters; repeated ones are refused, empty ones omitted (RFC 6749 3.1)."""
    pairs = parse_qsl(encoded, keep_blank_values=True)
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise Refusal("invalid_request", "a parameter occurs more than once")
    return {name: value for name, value in parameters.items() if value}


def required(parameters: Parameters, name: str) -> str:
    """The value of the parameter `name`; `invalid_request` when it is missing."""
    if name not in parameters:
        raise Refusal("invalid_request", f"{name} is missing")
    return parameters[name]
