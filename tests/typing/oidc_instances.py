"""What type checkers say of `OIDC` and its callbacks. Checked, never run.

A wrong call has an ignore with the code that mypy gives it: should mypy accept the call one day,
the ignore is unused, which is an error too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from pydantic import BaseModel, SecretStr
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response

from fastapi_oidc import (
    OIDC,
    Event,
    IdentityContext,
    LoginOptions,
    MemoryStore,
    OIDCLocals,
    OIDCSession,
    OIDCSettings,
    Page,
    PersistContext,
    ProviderMetadata,
    PublicSessionContext,
    RequestDataContext,
    SignedIn,
    StandardIdentity,
)


class User(BaseModel):
    sub: str
    roles: list[str]


class Permissions(BaseModel):
    may_write: bool


def make_user(context: IdentityContext) -> User:
    return User(sub=str(context.id_token_claims["sub"]), roles=[])


async def find_user(context: IdentityContext) -> User:
    return make_user(context)


async def load(context: RequestDataContext[User]) -> Permissions:
    return Permissions(may_write="admin" in context.session.identity.roles)


def show(context: PublicSessionContext[User, Permissions]) -> object:
    return {"sub": context.base.sub, "may_write": context.data and context.data.may_write}


def drop_access_token(context: PersistContext[User]) -> OIDCSession[User] | None:
    return context.session if context.reason == "login" else None


async def enrol(context: PersistContext[User]) -> None:
    print(context.session.identity.roles)


def settings() -> OIDCSettings:
    secret, names = "x" * 32, ["openid"]
    OIDCSettings(issuer="i", client_id="c", cookie_secret=[SecretStr(secret)], scope=tuple(names))
    OIDCSettings(issuer="i", client_id="c", cookie_secret=[secret, SecretStr(secret)], scope=names)
    OIDCSettings(issuer="i", client_id="c", cookie_secret=secret, client_auth_method="magic")  # type: ignore[arg-type]
    OIDCSettings(issuer="i", client_id="c", cookie_secret=secret, response_mode="fragment")  # type: ignore[arg-type]
    OIDCSettings(issuer="i", client_id="c", cookie_secret=secret, max_age="1")  # type: ignore[arg-type]
    OIDCSettings(issuer="i", client_id="c", cookie_secret=secret, clientid="c")  # type: ignore[call-arg]
    OIDCSettings()
    OIDCSettings(name="partners", client_id="c")
    return OIDCSettings(issuer="i", client_id="c", client_secret=secret, cookie_secret=secret)


def instances() -> None:
    assert_type(OIDC(settings()), OIDC[StandardIdentity, None])
    assert_type(OIDC(settings(), resolve_identity=make_user), OIDC[User, None])
    assert_type(OIDC(settings(), resolve_identity=find_user), OIDC[User, None])
    assert_type(
        OIDC(settings(), resolve_identity=find_user, load_request_data=load),
        OIDC[User, Permissions],
    )
    OIDC[User, Permissions](
        settings(),
        resolve_identity=make_user,
        before_session_persist=drop_access_token,
        load_request_data=load,
        create_public_session=show,
        session_store=MemoryStore(),
        render_page=page,
    )
    OIDC(settings(), resolve_identity=find_user, before_session_persist=enrol)


def page(request: Request, page: Page) -> Response:
    return HTMLResponse(page.heading, page.status)


def wrong_instances() -> None:
    OIDC(settings(), resolve_identity="make_user")  # type: ignore[call-overload]
    OIDC(settings(), make_user)  # type: ignore[call-overload]
    OIDC[User](settings(), load_request_data=load)  # type: ignore[arg-type]
    OIDC[User, str](settings(), load_request_data=load)  # type: ignore[arg-type]
    OIDC[str](settings(), resolve_identity=make_user)  # type: ignore[arg-type]
    OIDC[User](settings(), session_store=MemoryStore)  # type: ignore[call-overload]
    OIDC[User](settings(), on_event=async_listener)  # type: ignore[arg-type]


async def async_listener(event: Event) -> None:
    print(event.name)


async def methods(oidc: OIDC[User, Permissions], request: Request, socket: HTTPConnection) -> None:
    assert_type(await oidc.get_session(socket), OIDCSession[User] | None)
    assert_type(await oidc.get_locals(socket), OIDCLocals[User, Permissions])
    assert_type(await oidc.require_auth(request), OIDCSession[User])
    assert_type((await oidc.require_auth(request)).identity.roles, list[str])
    assert_type(await oidc.handle_callback(request), SignedIn[User])
    assert_type(await oidc.login(request, LoginOptions(prompt="login")), Response)
    assert_type(await oidc.refresh(request), OIDCSession[User])
    assert_type(await oidc.sessions_of("alice"), Sequence[OIDCSession[User]])
    assert_type(await oidc.is_still_signed_in(socket), bool)
    assert_type(await oidc.provider_metadata(), ProviderMetadata)
    await oidc.revoke(session_id=(await oidc.require_auth(request)).id)
    assert_type(oidc.csrf_token(await oidc.require_auth(request)), str)
    oidc.callback_handler(on_success=greet)
    oidc.require(lambda user: "admin" in user.roles)
    oidc.require(is_admin)


async def wrong_methods(oidc: OIDC[User, Permissions], request: Request) -> None:
    await oidc.login(request, LoginOptions(prompt="always"))  # type: ignore[arg-type]
    await oidc.login(request, "/me")  # type: ignore[arg-type]
    oidc.require(lambda user: user.is_admin)  # type: ignore[attr-defined]
    oidc.require(is_named)  # type: ignore[arg-type]
    print((await oidc.get_session(request)).sub)  # type: ignore[union-attr]


async def is_admin(user: User) -> bool:
    return "admin" in user.roles


def is_named(user: StandardIdentity) -> bool:
    return user.name is not None


async def greet(request: Request, signed_in: SignedIn[User]) -> Response | None:
    print(request.url.path, signed_in.session.identity.roles)
    return None


def by_host(connection: HTTPConnection) -> OIDCSettings | None:
    return {"app.test": settings()}.get(connection.headers["host"])


async def by_host_slowly(connection: HTTPConnection) -> OIDCSettings | None:
    return by_host(connection)


async def registrations(request: Request) -> None:
    several = OIDC({"Staff": settings(), "Partners": settings()}, resolve_identity=make_user)
    session = await several.require_auth(request)
    assert_type(session, OIDCSession[User])
    assert_type(await several.require_csrf(request), OIDCSession[User])
    assert_type(await several.locals(request), OIDCLocals[User, None])
    assert_type(several.settings_of(session), OIDCSettings)
    assert_type(several.registration(settings()), OIDC[User, None])
    assert_type(await several.require(is_admin)(request), OIDCSession[User])
    assert_type(await several.require_recent(300)(request), OIDCSession[User])
    assert_type(await several.require_acr("mfa", "hwk")(request), OIDCSession[User])
    of_users = OIDC(by_host_slowly, resolve_identity=find_user)
    assert_type(await of_users.require_auth(request), OIDCSession[User])
    assert_type(await OIDC(by_host).require_auth(request), OIDCSession[StandardIdentity])
