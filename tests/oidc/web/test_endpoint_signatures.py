"""An endpoint without `Depends(...)` is refused when it is defined: nobody writes a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Body, Depends, FastAPI, Query
from pydantic import BaseModel

from fastapi_oidc import (
    Code,
    ConfigurationError,
    OIDCLocals,
    OIDCSession,
    PersistContext,
    SignedIn,
    StandardIdentity,
    Tokens,
)

Session = OIDCSession[StandardIdentity]
Locals = OIDCLocals[StandardIdentity, None]
Endpoint = Callable[..., Any]


def taking(annotation: object, *, default: object = ...) -> Endpoint:
    """An endpoint with one parameter."""

    def endpoint(value):  # type: ignore[no-untyped-def]  # annotated below
        return value

    endpoint.__annotations__ = {"value": annotation}
    endpoint.__defaults__ = None if default is ... else (default,)
    return endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        taking(Session),
        taking(Annotated[Session, Depends()]),
        taking(Session, default=Depends()),
        taking(Annotated[Locals, Depends()]),
        taking(Annotated[Session, Depends(Session)]),
        taking(Annotated[Session, Body()]),
        taking(Annotated[Session, Query()]),
        taking(Session | None, default=None),
        taking(list[Session]),
        taking(PersistContext[StandardIdentity]),
        taking(SignedIn[StandardIdentity]),
    ],
    ids=lambda endpoint: str(endpoint.__annotations__["value"]),
)
def test_what_fastapi_would_make_of_the_request_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(ConfigurationError, match=r"Depends\(oidc\.require_auth\)") as caught:
        FastAPI().post("/")(endpoint)
    assert caught.value.code is Code.CONFIGURATION_INVALID


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (Tokens, "Tokens"),
        (OIDCLocals, "OIDCLocals"),
        (Annotated[Tokens, Depends()], "sessions, tokens and locals"),
        (OIDCSession["Later"], "OIDCSession.*"),
    ],
)
def test_a_refusal_names_what_cannot_be_read(annotation: object, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f": {name} cannot be read from a request"):
        FastAPI().post("/")(taking(annotation))


class Later(BaseModel):
    sub: str


def test_a_session_as_an_answer_is_refused() -> None:
    def endpoint() -> None: ...

    endpoint.__annotations__ = {"return": Session}
    with pytest.raises(ConfigurationError, match=r"PublicSession\.of"):
        FastAPI().get("/")(endpoint)
