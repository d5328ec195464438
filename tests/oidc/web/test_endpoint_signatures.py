"""An endpoint without `Depends(...)` is refused when it is defined: nobody writes a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, Depends, FastAPI, Query
from pydantic import BaseModel

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    OIDCLocals,
    OIDCSession,
    PersistContext,
    SignedIn,
    StandardIdentity,
    Tokens,
    require_auth,
)
from tests.oidc.world import make_world

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
    ],
)
def test_a_refusal_names_what_cannot_be_read(annotation: object, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f": {name} cannot be read from a request"):
        FastAPI().post("/")(taking(annotation))


def test_a_session_whose_identity_is_defined_later_is_refused_too() -> None:
    with pytest.raises(ConfigurationError, match="require_auth"):
        FastAPI().post("/")(taking(OIDCSession["Later"]))


class Later(BaseModel):
    sub: str


def test_a_session_as_an_answer_is_refused() -> None:
    def endpoint() -> Session:
        raise NotImplementedError

    endpoint.__annotations__ = {"return": Session}
    with pytest.raises(ConfigurationError, match=r"PublicSession\.of"):
        FastAPI().get("/")(endpoint)


async def test_a_dependency_gives_the_session_and_the_request_does_not() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.post("/alias")(taking(Annotated[Session, Depends(oidc.require_auth)]))
        app.post("/locals")(_sub_of_locals(oidc))

        @app.post("/session")
        async def session(session: Annotated[Session, Depends(require_auth)]) -> str:
            return session.sub

    world = make_world(mount=mount)
    forged = {"sub": "admin", "session": {"sub": "admin"}}
    browser = await world.signed_in()
    for path in ("/session", "/locals"):
        assert (await browser.post(path, json=forged)).json() == "alice"
    async with world.browser() as nobody:
        answer: httpx.Response = await nobody.post("/session", json=forged)
        assert answer.status_code == 401
        assert (await nobody.post("/locals", json=forged)).json() is None


def _sub_of_locals(oidc: OIDC[Any, Any]) -> Endpoint:
    async def endpoint(locals: Locals = Depends(oidc.locals)) -> str | None:
        return locals.session.sub if locals.session else None

    return endpoint
