"""A callback that expects something else is refused when it is given."""

from __future__ import annotations

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


def of_context(context: IdentityContext) -> None: ...


def of_its_generic(context: PersistContext[StandardIdentity]) -> None: ...


def of_union(context: IdentityContext | None) -> None: ...


def of_annotated(context: Annotated[IdentityContext, "this"]) -> None: ...


def of_any(context: Any) -> None: ...


def of_object(context: object) -> None: ...


def of_protocol(context: HasClaims) -> None: ...


def of_typed_dict(context: Claims) -> None: ...


def of_unread(context: Unread) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def of_everything(*anything: str, **named: str) -> None: ...


@wraps(of_two)
def decorated(*given: Any) -> StandardIdentity:
    return of_two(given[0], {"sub": "injected"})


@wraps(of_claims)
def decorated_by_the_same_name(claims: Any) -> StandardIdentity:
    return of_claims(claims.id_token_claims)


def of_a_base(connection: HTTPConnection) -> None: ...


def of_a_kind(error: SessionError) -> None: ...


FITTING: dict[type, list[Any]] = {
    IdentityContext: [
        *(None, of_context, of_union, of_annotated, of_protocol, of_typed_dict, of_unread),
        *(of_everything, partial(of_two, {}), decorated, decorated_by_the_same_name, print, type),
    ],
    PersistContext: [of_its_generic],
    RequestDataContext: [of_any, of_object],
    Request: [of_a_base],
    OIDCError: [of_a_kind],
}


@pytest.mark.parametrize("given", FITTING)
def test_what_may_fit_is_accepted(given: type) -> None:
    for callback in FITTING[given]:
        require_takes("callback", callback, given)
