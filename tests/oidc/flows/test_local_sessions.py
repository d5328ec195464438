"""What an endpoint changes of its session is its request's own, wherever the session came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel
from typing_extensions import TypedDict

from fastapi_oidc import OIDC, IdentityContext, OIDCSession, SignedIn
from tests.oidc.flows.steps import AFTER_EXPIRY, callback_url, copy_of, two_processes
from tests.oidc.interleaving import Held, begun
from tests.oidc.session.dictionary_stores import DictionaryStore
from tests.oidc.world import World, make_world


@dataclass
class Plain:
    sub: str
    roles: list[str]


class Typed(TypedDict):
    sub: str
    roles: list[str]


class Model(BaseModel):
    sub: str
    roles: list[str]


STORES: dict[str, Callable[[], Any]] = {
    "cookie": lambda: None,
    "memory": lambda: "memory",
    "dictionary": DictionaryStore,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Any:
    return STORES[request.param]()


def roles_of(identity: Any) -> list[str]:
    roles: list[str] = identity["roles"] if isinstance(identity, dict) else identity.roles
    return roles


def change(session: OIDCSession[Any]) -> dict[str, object]:
    """Changes every mutable value of the session; what they were before."""
    before: dict[str, object] = {
        "roles": [*roles_of(session.identity)],
        "claim": session.claims.get("note"),
    }
    roles_of(session.identity).append("admin")
    session.claims["note"] = "of one request"
    return before


UNCHANGED = {"roles": ["reader"], "claim": None}


def with_pages(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/change")
    async def change_it(request: Request) -> object:
        return change(await oidc.require_auth(request))

    @app.get("/refresh")
    async def refresh(request: Request) -> object:
        return change(await oidc.refresh(request))


def resolving(kind: Any) -> Any:
    def resolve(context: IdentityContext) -> Any:
        return kind(sub=context.id_token_claims["sub"], roles=["reader"])

    resolve.__annotations__["return"] = kind
    return resolve


async def seen(browser: httpx.AsyncClient, path: str = "/change") -> object:
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("kind", [Plain, Typed, Model, dict])
async def test_requests_share_no_value_of_a_session(store: Any, kind: Any) -> None:
    """At a login, during a refresh, for an old cookie, for a new one, and of a memory."""
    world = make_world(resolve_identity=resolving(kind), session_store=store, mount=with_pages)
    browser = await world.signed_in()
    assert [await seen(browser) for _ in range(2)] == [UNCHANGED] * 2
    old, held = copy_of(browser, world), Held()
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    requests = [begun(browser.get("/change")) for _ in range(2)]
    await held.gate.until_reached()
    held.gate.opened.set()
    assert [(await request).json() for request in requests] == [UNCHANGED] * 2
    assert [await seen(each) for each in (old, browser, old, browser)] == [UNCHANGED] * 4
    assert [await seen(browser, "/refresh") for _ in range(2)] == [UNCHANGED] * 2
    assert await seen(browser) == UNCHANGED


async def test_requests_of_processes_share_no_value_of_a_session(mode: str) -> None:
    here, there = two_processes(mode, resolve_identity=resolving(dict), mount=with_pages)
    browser = await here.signed_in()
    old = copy_of(browser, there)
    here.time.advance(AFTER_EXPIRY)
    for tab in (browser, old, browser, old):
        assert await seen(tab) == UNCHANGED


async def test_recorded_uses_share_no_value_of_a_session(mode: str) -> None:
    world = make_world(
        resolve_identity=resolving(dict),
        session_store="memory" if mode == "store" else None,
        settings={"idle_timeout": 600},
        mount=with_pages,
    )
    browser = await world.signed_in()
    old = copy_of(browser, world)
    for tab in (browser, old, browser):
        world.time.advance(100)
        assert await seen(tab) == UNCHANGED


async def test_callbacks_of_one_login_share_no_value_of_a_session(store: Any) -> None:
    changes: list[object] = []

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        def on_success(_request: Request, signed_in: SignedIn[Any]) -> None:
            changes.append(change(signed_in.session))

        app.router.routes.clear()
        app.get("/auth/login", name="login")(oidc.login_handler())
        app.get("/auth/callback")(oidc.callback_handler(on_success=on_success))
        with_pages(app, oidc)

    world = make_world(resolve_identity=resolving(dict), session_store=store, mount=mount)
    browser = world.browser()
    url = await callback_url(browser)
    reloaded = copy_of(browser, world)
    for each in (browser, reloaded):
        await each.get(url, follow_redirects=False)
        assert await seen(each) == UNCHANGED
    assert changes == [UNCHANGED] * len(changes)


@pytest.mark.parametrize("kind", [Plain, Typed, Model, dict])
async def test_identity_is_read_back_as_its_own_type(store: Any, kind: Any) -> None:
    loaded: list[object] = []
    world: World = make_world(
        resolve_identity=resolving(kind),
        load_request_data=lambda context: loaded.append(context.session.identity),
        session_store=store,
    )
    browser = await world.signed_in()
    shown = (await browser.get("/auth/session")).json()["identity"]
    assert shown == {"sub": "alice", "roles": ["reader"]}
    assert loaded[-1] == kind(sub="alice", roles=["reader"])
