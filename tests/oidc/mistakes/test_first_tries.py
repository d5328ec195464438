"""What people write first, and what it says: the option, the reason and the remedy."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from jinja2 import Template
from pydantic import BaseModel

from fastapi_oidc import (
    OIDC,
    ConfigurationError,
    IdentityContext,
    OIDCLocals,
    OIDCMiddleware,
    OIDCSettings,
    PublicSession,
    StandaloneAPI,
    StandardIdentity,
)
from fastapi_oidc.broker import Broker
from fastapi_oidc.testing import (
    DevClient,
    DevProvider,
    DevUser,
    ServerError,
    session_for,
    sign_in,
    sign_in_sync,
)
from tests.oidc.settings.examples import options
from tests.oidc.web.asking import begin
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import make_world, signed_in_world

ALICE = DevUser("alice")
REQUEST = Request({"type": "http"})
OTHER = httpx2.ASGITransport(FastAPI())


def settings(**changes: Any) -> OIDCSettings:
    return OIDCSettings(**options(**changes))


def unchecked(function: Any) -> Any:
    """`function` for a call that a type checker would refuse."""
    return function


async def tools(scope: Any, receive: Any, send: Any) -> None: ...


async def settled(event: object) -> None: ...


def needing(context: IdentityContext, names: Any = Depends(dict)) -> StandardIdentity:
    return StandardIdentity(sub=names["alice"])


def needing_settings(settings: OIDCSettings = Depends(OIDCSettings)) -> None: ...


def a_session() -> Any:
    return deepcopy(session_for(StandardIdentity(sub="alice")))


def api(world: Any) -> Any:
    return world.oidc.api("https://app.test/api")


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"session_lifetime": "8h"}, "session_lifetime: .* valid integer"),
    ({"idle_timeout": timedelta(hours=1)}, "idle_timeout: .* integer"),
    ({"scope": ["openid profile"]}, "scope: .* each value is one word"),
    *[
        ({"scope": scope}, "scope: has commas: put spaces between the values")
        for scope in ("openid,profile", "openid profile,email", "openid,profile email")
    ],
    ({"issuer": "op.test"}, "issuer: is a URL without query and fragment, as in https://op"),
    ({"client_auth_method": "private_key_jwt"}, "client_auth_method: private_key_jwt needs "),
    ({"cookie_secret": b"bytes" * 8}, "cookie_secret: Input should be a valid tuple"),
    ({"issuer": object()}, "issuer: Input should be a valid string"),
    ({"session_lifetime": 86_400_000}, "session_lifetime: .* less than or equal to 34560000"),
    ({"cookie_domain": ".example.com"}, "cookie_domain: .* hosts share no cookie"),
    ({"cookie_secret": "short"}, "a cookie secret needs at least 32 random bytes"),
    ({"issuer": "https://op.test/.well-known/openid-configuration"}, "is the address of the meta"),
    ({"base_url": "https://app.test/app"}, "base_url: is scheme and host"),
    ({"base_url": "http://app.test"}, "base_url: must be https; allow_insecure_http permits"),
    ({"isuer": "https://op.test"}, "isuer: is not a setting, is issuer meant"),
    ({"authority": "https://op.test"}, "authority: is not a setting, is issuer meant"),
    ({"base_url": None}, "redirect URIs are never made from request headers"),
]


@pytest.mark.parametrize(("changes", "said"), SETTINGS)
def test_a_setting(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        settings(**changes)


CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: setattr(settings(), "client_secret", "new"), "model_copy.update=.'client_secret'"),
    (lambda w: Depends(w.oidc.require_auth()), r"Depends\(guard\), without a call"),
    (lambda w: w.oidc.require_auth(tools), "not function. A guard is a dependency"),
    (lambda w: w.oidc.require_auth(request=REQUEST), "not NoneType. A guard is a dependency"),
    (lambda w: w.oidc.get_session("a"), r"not str. Write `await oidc\.get_session\(request\)`"),
    (lambda w: api(w).require(role=["x"]), "role of api.require must be str or None, not list"),
    (lambda w: w.oidc.api(["https://app.test/api"]), "audience of oidc.api must be str, not list"),
    (lambda w: api(w).require(["read"]), "several arguments, must be str, not list"),
    (lambda w: api(w).protected("read", tools), "app must be an ASGI application, not str"),
    (lambda w: w.op.faults.put("tokens", ServerError()), "'tokens' is not one of metadata"),
    (lambda w: w.op.faults.put("token", 503), "a fault is ServerError"),
    (lambda w: w.op.edits.put("idtoken", dict), "'idtoken' is not one of"),
    (lambda w: w.op.record.of("TokensIssued"), "takes a class of events"),
    (lambda _: unchecked(DevProvider)(users=["alice"], clients=[]), "must be DevUser, not str"),
    (lambda _: unchecked(DevProvider)(users=[ALICE], clients=[{}]), "must be DevClient, not dict"),
    (lambda _: unchecked(DevClient)(client_id="a", redirect_uris="b"), "is a list of URLs"),
    (lambda _: a_session().claims.setdefault("cart", []), "no place for data of the application"),
    (lambda _: Template("{{ oidc.user }}").render(oidc=OIDCLocals()), "has session, identity, d"),
    (lambda _: FastAPI().get("/")(needing_settings), "would read the settings from the request"),
    (lambda _: unchecked(OIDC)(settings(), resolve_identity=settings()), "is a function, not OIDC"),
    (lambda _: unchecked(Broker)(make_world(session_store="memory").oidc, {"a": 1}), "be Route,"),
    (lambda w: api(w).mount("/mcp", FastAPI(), tools), "app of api.mount must be FastAPI, not str"),
    (lambda w: str(a_session().tokens), "is not the text of a token"),
    (lambda _: pickle.dumps(a_session()), r"send session\.id, and call oidc\.grant"),
    (lambda _: f"Bearer {a_session().tokens}", "is not the text of a token"),
    (lambda w: f"Bearer {w.oidc.auth(a_session())}", "is not the text of a token"),
    (lambda w: w.oidc.require_role("admin", "editor"), "takes 2 positional arguments"),
    (lambda w: w.oidc.require_role(["admin"]), "role of oidc.require_role must be str, not list"),
    (lambda w: w.oidc.callback_handler(on_success=api), r"on_success is called with \(Request, "),
    (lambda w: w.oidc.require_role("admin"), "those of StandardIdentity are None: let"),
    (lambda w: unchecked(api(w)).require(REQUEST), "must be str, not Request"),
    (lambda w: unchecked(OIDCMiddleware)(w.app.router, w.oidc.settings), "not OIDCSettings"),
    (lambda _: unchecked(OIDC)(settings(), resolve_identity=lambda c: c), "annotate what resolve_"),
    (lambda _: unchecked(OIDC)(settings(), resolve_identity=needing), r"has Depends\(\.\.\.\): "),
    (lambda _: unchecked(OIDC)(settings(), on_event=settled), "on_event is not async"),
    (lambda _: unchecked(OIDC)(settings(), on_event=lambda a, b: a), r"is called with \(Event\),"),
    (lambda _: unchecked(OIDC)(), "missing 1 required positional argument: 'settings'"),
    (lambda _: unchecked(OIDC)(settings), r"is called with \(HTTPConnection\), and takes"),
    (lambda w: w.oidc.login_required, "oidc has no 'login_required': is oidc.require_auth meant"),
    (lambda w: w.oidc.require_rol, "oidc has no 'require_rol': is oidc.require_role meant"),
    (lambda w: w.oidc.authorize_access_token, "oidc.router has the callback"),
    (lambda w: FastAPI().include_router(w.oidc), r"write app\.include_router\(oidc\.router, pre"),
    (lambda _: session_for(ALICE, expire_at=1), "argument 'expire_at': is expires_at"),
    (lambda _: session_for(StandardIdentity), "an identity, not the class StandardIdentity"),
    (lambda w: unchecked(OIDC)(settings(), transport=w.op.app), "ASGITransport"),
    (lambda _: unchecked(OIDC)(settings(), transport=OTHER), "give an async transport of httpx"),
]


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_a_call(call: Callable[[Any], object], said: str) -> None:
    with pytest.raises((ConfigurationError, TypeError, ValueError, AttributeError), match=said):
        call(make_world())


async def test_a_token_without_a_scheme(caplog: pytest.LogCaptureFixture) -> None:
    def mount(app: FastAPI, oidc: OIDC) -> None:
        guard = Depends(oidc.api("https://app.test/api").require())
        app.get("/api", dependencies=[guard])(lambda: 1)

    async with make_world(mount=mount).browser() as client:
        answer = await client.get("/api", headers={"Authorization": "eyJh.eyJz.c2ln"})
    assert answer.json()["code"] == "access_token.required"
    assert "needs a header Authorization: Bearer TOKEN" in answer.text
    assert "eyJh" not in caplog.text


async def test_an_application_in_another_one(caplog: pytest.LogCaptureFixture) -> None:
    outer = FastAPI()
    outer.mount("/shop", make_world().app)
    await begin(outer, "/shop/")
    assert "does not run, because it is mounted" in caplog.text
    assert "misses request.state.oidc, it is outside: add OIDCMiddleware last" in caplog.text


async def test_a_database_given_by_its_url_gets_its_tables(tmp_path: Any) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/sessions.db"
    world, browser = await signed_in_world(session_store=url)
    assert (await browser.get("/me")).status_code == 200
    await world.oidc.aclose()


async def test_a_login_that_another_secret_has_sealed(caplog: pytest.LogCaptureFixture) -> None:
    """As with a secret that each worker makes for itself."""
    async with make_world().browser() as browser, make_world().browser() as other:
        begun = await browser.get("/auth/login", follow_redirects=False)
        other.cookies.update(dict(browser.cookies))
        state = begun.headers["location"].partition("&state=")[2].partition("&")[0]
        assert (await other.get(f"/auth/callback?code=1&state={state}")).status_code == 400
    assert "was sealed with another cookie_secret: all processes need the same" in caplog.text


@pytest.mark.parametrize("is_lost", [True, False])
async def test_an_override_of_another_guard(
    is_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    world.app.get("/admin", dependencies=[Depends(world.oidc.require(bool))])(lambda: None)
    world.app.get("/form", dependencies=[Depends(world.oidc.require_csrf)])(lambda: None)
    overridden: Any = world.oidc.require(bool) if is_lost else world.oidc.require_csrf
    world.app.dependency_overrides[overridden] = lambda: None
    async with world.browser() as browser:
        assert (await browser.get("/admin")).status_code == 401
    assert ("no endpoint depends on require, which is overridden" in caplog.text) == is_lost


async def test_an_override_that_returns_the_identity() -> None:
    world = make_world()
    world.app.get("/csrf", dependencies=[Depends(world.oidc.require_csrf)])(lambda: None)
    alice = StandardIdentity(sub="alice")
    world.app.dependency_overrides[world.oidc.require_auth] = lambda: alice
    async with world.browser() as browser:
        with pytest.raises(TypeError, match="of an override must be OIDCSession, not StandardId"):
            await browser.get("/csrf")


class WithAnything(BaseModel):
    """An identity whose roles are known when a user signs in."""

    roles: Any


def of_roles(roles: object) -> tuple[Any, object]:
    return (lambda oidc: oidc.require_role("admin")), roles


NO_TRUTH, NO_LIST = "not True or False", "let resolve_identity return an identity with a list"


@pytest.mark.parametrize(
    ("guard", "roles", "said"),
    [
        (lambda o: o.require(lambda u: str(u).isdigit), [], f"function_or_method, {NO_TRUTH}"),
        (lambda o: o.require(lambda u: lambda: False), [], f"returned function, {NO_TRUTH}"),
        (lambda o: o.require(lambda u: (False for _ in ())), [], f"generator, {NO_TRUTH}"),
        (lambda o: o.require(lambda u: "False"), [], f"returned str, {NO_TRUTH}"),
        (*of_roles("admin"), f"WithAnything are str: {NO_LIST}"),
        (*of_roles(None), f"WithAnything are NoneType: {NO_LIST}"),
        (*of_roles(["viewer", 1]), f"WithAnything are int: {NO_LIST}"),
        (*of_roles({"admin": 1}), f"WithAnything are dict: {NO_LIST}"),
        (*of_roles(5), f"WithAnything are int: {NO_LIST}"),
    ],
)
async def test_a_guard_that_cannot_decide(
    guard: Any, roles: object, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    identity = WithAnything(roles=roles)
    world = make_world(resolve_identity=lambda _: identity, identity_type=WithAnything)
    world.app.get("/admin", dependencies=[Depends(guard(world.oidc))])(lambda: None)
    assert (await (await world.signed_in()).get("/admin")).status_code == 500
    assert said in caplog.text


def test_locals_and_public_sessions_are_true_with_a_user() -> None:
    users: tuple[Any, ...] = OIDCLocals(session=a_session()), PublicSession(is_authenticated=True)
    nobody: tuple[Any, ...] = OIDCLocals(), PublicSession(is_authenticated=False)
    assert [bool(each) for each in (*users, *nobody)] == [True, True, False, False]


async def test_a_session_that_is_read_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    def mount(app: FastAPI, oidc: OIDC) -> None:
        @app.websocket("/ws")
        async def ws(socket: WebSocket) -> None:
            await oidc.get_session(socket)
            await socket.accept()
            for told in (0, 0, 1):
                assert caplog.text.count("is_still_signed_in says whether it has ended") == told
                await oidc.get_session(socket)
            await socket.send_text("read")

    world, browser = await signed_in_world(mount=mount)
    assert len(await opened(world, dict(browser.cookies))) > 1


async def test_what_a_callback_raises_has_a_note() -> None:
    def failing(context: object) -> None:
        raise TypeError("the database is not there")

    world = make_world(load_request_data=failing)
    with pytest.raises(TypeError) as caught:
        await world.signed_in()
    assert "failing(RequestDataContext). FastAPI inj" in caught.value.__notes__[0]


async def test_a_sign_in_that_signs_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    for path, status in (("/docs", 200), ("/auth/signin", 404)):
        await sign_in(world.browser(), path, user="alice")
        assert (
            f"Nobody was signed in: https://app.test{path} begins no login (status {status})"
            in (caplog.text)
        )
    caplog.clear()
    await sign_in(world.browser(), "/auth/login", user="carol")
    (message,) = caplog.messages
    assert message.startswith("DevProvider refused a request: ")


async def test_a_sign_in_with_the_other_kind_of_client() -> None:
    world = make_world()
    client = world.op.test_client(world.app, base_url="https://app.test")
    with pytest.raises(TypeError, match="for a test_client use sign_in_sync"):
        await sign_in(unchecked(client), "/me", user="alice")
    with pytest.raises(TypeError, match=r"for provider\.browser\(\.\.\.\) use sign_in"):
        sign_in_sync(unchecked(world.browser()), "/me", user="alice")


def advised(caplog: pytest.LogCaptureFixture, setting: str) -> list[str]:
    """The advice about this setting."""
    return [each for each in caplog.messages if each.startswith(f"{setting}: ")]


async def test_sessions_of_an_email_address(caplog: pytest.LogCaptureFixture) -> None:
    """Also if the identity has the address as its `sub`."""

    def resolve(context: IdentityContext) -> StandardIdentity:
        return StandardIdentity(sub="alice@example.com")

    world, browser = await signed_in_world(session_store="memory", resolve_identity=resolve)
    await world.oidc.revoke(sub="carol")
    assert advised(caplog, "sub") == []
    await world.oidc.revoke(sub="alice@example.com")
    (message,) = advised(caplog, "sub")
    assert "If that was an e-mail address and not session.sub, that of" in message
    assert (await browser.get("/me")).status_code == 200
    assert len(await world.oidc.sessions_of("alice")) == 1
    caplog.clear()
    by_address = {"users": [DevUser("alice@example.com")]}
    world = make_world(session_store="memory", provider=by_address)
    await world.signed_in("alice@example.com")
    await world.oidc.revoke(sub="alice@example.com")
    assert advised(caplog, "sub") == []


async def test_a_standalone_api_without_its_middleware(caplog: pytest.LogCaptureFixture) -> None:
    api = StandaloneAPI("https://op.test", "https://api.test")
    app = FastAPI()
    app.get("/m", dependencies=[Depends(api.require())])(lambda: None)
    with pytest.raises(ConfigurationError, match=r"add_middleware\(OIDCMiddleware, oidc=api\)$"):
        await begin(app, "/m")
