"""What the suite says, how a module changes it, and how a response reaches the browser."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlencode

import httpx

from fastapi_oidc import Code
from fastapi_oidc.protocol.json import JSON
from tests.oidc.conformance.suite_keys import Members

Message: TypeAlias = Literal[
    "metadata",
    "jwks",
    "authorization_response",
    "token_response",
    "id_token",
    "refreshed_id_token",
    "userinfo",
    "logout_token",
    "logout_return",
]
Edit: TypeAlias = Callable[[Members], Members]
Refusals: TypeAlias = Mapping[str, tuple[Edit, Code]]
"""By the name of a module, what it changes and the error that must follow."""


def without(*names: str) -> Edit:
    """The edit that takes members away."""
    return lambda members: {name: members[name] for name in members if name not in names}


def with_members(**members: JSON) -> Edit:
    """The edit that sets members."""
    return lambda original: original | members


def with_suffix(name: str, suffix: str) -> Edit:
    """The edit that appends to the text of one member."""
    return lambda original: original | {name: f"{original[name]}{suffix}"}


def delivered(uri: str, response: Members, mode: str) -> httpx.Response:
    """The response in the query of a redirect, or in a form that submits itself (Form Post 1.0)."""
    fields = {name: str(value) for name, value in response.items()}
    if mode == "query":
        return httpx.Response(302, headers={"Location": f"{uri}?{urlencode(fields)}"})
    inputs = "".join(
        f'<input name="{name}" value="{html.escape(fields[name])}">' for name in fields
    )
    return httpx.Response(200, html=f'<form method="post" action="{uri}">{inputs}</form>')
