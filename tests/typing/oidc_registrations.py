"""Several registrations keep the application's types; checkers read this file."""

from __future__ import annotations

from typing import assert_type

from fastapi import Request
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from fastapi_oidc import (
    OIDC,
    IdentityContext,
    OIDCLocals,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
)


class User(BaseModel):
    sub: str


def resolve_identity(context: IdentityContext) -> User:
    return User.model_validate(context.id_token_claims)


REGISTERED: dict[str, OIDCSettings] = {}


def by_host(connection: HTTPConnection) -> OIDCSettings | None:
    return REGISTERED.get(connection.headers["host"])


async def by_host_slowly(connection: HTTPConnection) -> OIDCSettings | None:
    return by_host(connection)


async def several(request: Request, settings: OIDCSettings) -> None:
    registered = {"Staff": settings, "Partners": settings}
    oidc = OIDC(registered, resolve_identity=resolve_identity)
    session = await oidc.require_auth(request)
    assert_type(session, OIDCSession[User])
    assert_type(await oidc.require_csrf(request), OIDCSession[User])
    assert_type(await oidc.locals(request), OIDCLocals[User, None])
    assert_type(oidc.settings_of(session), OIDCSettings)
    assert_type(oidc.registration(settings), OIDC[User, None])
    guard = oidc.require(lambda user: user.sub == "alice")
    assert_type(await guard(request), OIDCSession[User])


async def found(request: Request) -> None:
    of_users = OIDC(by_host_slowly, resolve_identity=resolve_identity)
    assert_type(await of_users.require_auth(request), OIDCSession[User])
    assert_type(await of_users.require_recent(300)(request), OIDCSession[User])
    usual = OIDC(by_host)
    assert_type(await usual.require_auth(request), OIDCSession[StandardIdentity])


async def stepped_up(request: Request, settings: OIDCSettings) -> None:
    oidc = OIDC(settings, resolve_identity=resolve_identity)
    assert_type(await oidc.require_recent(300)(request), OIDCSession[User])
    assert_type(await oidc.require_acr("mfa", "hwk")(request), OIDCSession[User])
