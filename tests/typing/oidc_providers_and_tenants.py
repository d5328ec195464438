"""Several providers and tenants keep the application's types; checkers read this file."""

from __future__ import annotations

from typing import assert_type

from fastapi import Request
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from fastapi_oidc import (
    OIDC,
    IdentityContext,
    OIDCLocals,
    OIDCProviders,
    OIDCSession,
    OIDCSettings,
    OIDCTenants,
    StandardIdentity,
)


class User(BaseModel):
    sub: str


def resolve_identity(context: IdentityContext) -> User:
    return User.model_validate(context.id_token_claims)


def create(settings: OIDCSettings) -> OIDC[User]:
    return OIDC(settings, resolve_identity=resolve_identity)


REGISTERED: dict[str, OIDCSettings] = {}


def by_host(connection: HTTPConnection) -> OIDCSettings | None:
    return REGISTERED.get(connection.headers["host"])


async def by_host_slowly(connection: HTTPConnection) -> OIDCSettings | None:
    return by_host(connection)


async def providers(request: Request, settings: OIDCSettings) -> None:
    several = OIDCProviders({"Staff": create(settings), "Partners": create(settings)})
    assert_type(await several.require_auth(request), OIDCSession[User])
    assert_type(await several.require_csrf(request), OIDCSession[User])
    assert_type(await several.locals(request), OIDCLocals[User, None])
    assert_type(await several.current(request), OIDC[User] | None)
    guard = several.guard(lambda oidc: oidc.require(lambda user: user.sub == "alice"))
    assert_type(await guard(request), OIDCSession[User])


async def tenants(request: Request) -> None:
    of_users = OIDCTenants(by_host_slowly, create=create)
    assert_type(await of_users.require_auth(request), OIDCSession[User])
    assert_type(of_users.current(request), OIDC[User] | None)
    guard = of_users.guard(lambda oidc: oidc.require_recent(300))
    assert_type(await guard(request), OIDCSession[User])
    usual = OIDCTenants(by_host)
    assert_type(await usual.require_auth(request), OIDCSession[StandardIdentity])


async def stepped_up(request: Request, settings: OIDCSettings) -> None:
    oidc = create(settings)
    assert_type(await oidc.require_recent(300)(request), OIDCSession[User])
    assert_type(await oidc.require_acr("mfa", "hwk")(request), OIDCSession[User])
