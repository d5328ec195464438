"""A callback that expects something else is refused when it is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any, Protocol, TypedDict

import pytest
from starlette.requests import HTTPConnection, Request

from fastapi_oidc import (
    ConfigurationError,
    IdentityContext,
    OIDCError,
    OIDCSession,
    PersistContext,
    RequestDataContext,
    SessionError,
    StandardIdentity,
)
from fastapi_oidc.web.misuse import require_takes
from tests.oidc.world import make_world


class Claims(TypedDict):
    sub: str


class HasClaims(Protocol):
    claims: Claims


def of_claims(claims: dict[str, Any]) -> StandardIdentity:
    return StandardIdentity(sub=claims["sub"])


def of_two(claims: Any, user_info: Any) -> StandardIdentity:
    return StandardIdentity(sub=claims["sub"] + user_info["sub"])


def of_session(session: OIDCSession[StandardIdentity]) -> None: ...


async def of_request(request: Request) -> None: ...


def of_one(page: Any) -> None: ...


@pytest.mark.parametrize(
    ("option", "callback", "said"),
    [
        ("resolve_identity", of_claims, "is called with (IdentityContext), and takes (claims: "),
        ("resolve_identity", of_two, "is called with (IdentityContext), and takes (claims: "),
        ("before_session_persist", of_session, "is called with (PersistContext), and takes "),
        ("load_request_data", of_request, "is called with (RequestDataContext), and takes (req"),
        ("create_public_session", of_session, "is called with (PublicSessionContext), and takes"),
        ("render_page", of_one, "is called with (Request, Page), and takes (page: Any)"),
    ],
)
def test_a_callback_of_something_else_is_refused(option: str, callback: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_world(**{option: callback})
    assert f"{option} {said}" in str(refused.value)


def taking(annotation: object) -> Callable[[Any], None]:
    """A callback whose parameter is annotated so."""

    def callback(context: Any) -> None: ...

    callback.__annotations__ = {"context": annotation}
    return callback


def of_everything(*anything: str, **named: str) -> None: ...


@wraps(of_two)
def decorated(*given: Any) -> StandardIdentity:
    return of_two(given[0], {"sub": "injected"})


@wraps(of_claims)
def decorated_by_the_same_name(claims: Any) -> StandardIdentity:
    return of_claims(claims.id_token_claims)


FITTING: dict[type, list[Any]] = {
    IdentityContext: [
        *(None, taking(IdentityContext), taking(IdentityContext | None), taking(HasClaims)),
        *(taking(Annotated[IdentityContext, "this"]), taking(Claims), taking("Unread")),
        *(of_everything, partial(of_two, {}), decorated, decorated_by_the_same_name, print, type),
    ],
    PersistContext: [taking(PersistContext[StandardIdentity])],
    RequestDataContext: [taking(Any), taking(object)],
    Request: [taking(HTTPConnection)],
    OIDCError: [taking(SessionError)],
}


@pytest.mark.parametrize("given", FITTING)
def test_what_may_fit_is_accepted(given: type) -> None:
    for callback in FITTING[given]:
        require_takes("callback", callback, given)
