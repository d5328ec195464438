"""What a browser is told of its session: never a token, and a new CSRF token each time."""

from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Form, Request

from fastapi_oidc import OIDC, Code, PublicSessionContext, SessionError
from fastapi_oidc.testing import ServerError
from fastapi_oidc.web.pages import SCRIPT_VERSION
from fastapi_oidc.web.runtime import CSRFTokens
from tests.oidc.protocol.examples import each
from tests.oidc.session.examples import a_session
from tests.oidc.world import World, make_world, signed_in_world

OLD, NEW = b"o" * 32, b"n" * 32
TOKENS = CSRFTokens([NEW, OLD])
SESSION = a_session().model_copy(update={"id": "one"})
ANOTHER = SESSION.model_copy(update={"id": "two"})


def accepted(token: str | None) -> bool:
    try:
        TOKENS.require(SESSION, token)
    except SessionError as error:
        return error.code is not Code.SESSION_CSRF
    return True


def test_no_part_of_a_token_stays_the_same_and_each_is_accepted() -> None:
    one, other = (TOKENS.token(SESSION) for _ in range(2))
    assert not {*one.split(".")} & {*other.split(".")}
    assert accepted(one)
    assert accepted(other)


def test_a_rotated_key_still_verifies() -> None:
    assert accepted(CSRFTokens([OLD]).token(SESSION))
    assert not accepted(CSRFTokens([b"x" * 32]).token(SESSION))


OTHERS = {
    "none": (None, "", "x"),
    "no text of a token": ("é" * 43, "=" * 86, "\udcff" * 86),
    "invented": ("A" * 43, "A" * 86, "A" * 87),
    "of another session": (TOKENS.token(ANOTHER),),
    "changed": (TOKENS.token(SESSION)[:-1], TOKENS.token(SESSION) + "A"),
    "in the other case": (TOKENS.token(SESSION).swapcase(),),
}


@pytest.mark.parametrize("token", each(OTHERS))
def test_anything_else_is_refused(token: str | None) -> None:
    assert not accepted(token)


@pytest.mark.parametrize(
    "sent",
    [
        lambda token: {"data": {"name": "new"}, "headers": {"x-csrf-token": token}},
        lambda token: {"data": {"name": "new", "csrf_token": token}},
        lambda token: {"files": {"name": (None, "new"), "csrf_token": (None, token)}},
    ],
    ids=["header", "urlencoded form", "multipart form"],
)
async def test_a_token_is_accepted_in_the_header_and_in_a_form(sent: Any) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.post("/rename", dependencies=[Depends(oidc.require_csrf)])
        async def rename(name: Annotated[str, Form()]) -> str:
            return name

        @app.post("/raw", dependencies=[Depends(oidc.require_csrf)])
        async def raw(request: Request) -> str:
            return str((await request.form())["name"])

    world, browser = await signed_in_world(mount=mount)
    token = (await browser.get("/auth/session")).json()["csrf_token"]
    for path in ("/rename", "/raw"):
        assert (await browser.post(path, **sent(token))).json() == "new"
        assert (await world.browser().post(path, **sent(token))).status_code == 401
        refused = await browser.post(path, **sent("another"))
        assert (refused.status_code, refused.json()["code"]) == (403, "session.csrf")
        assert "form" not in refused.json()["detail"], "a script may have made the request"
        assert "the header X-CSRF-Token nor in the form field" in world.events[-1].explanation
        repeated = await browser.post(path, data={"csrf_token": ["another", token]})
        assert repeated.status_code == 403


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/public")
    async def public(request: Request) -> object:
        return await oidc.get_public_session(request)

    @app.get("/projected")
    async def projected(request: Request) -> object:
        return await oidc.to_public_session(request.state.oidc)


async def test_no_token_material_anywhere_in_it() -> None:
    world, browser = await signed_in_world(mount=mount, session_store="memory")
    tokens = (await world.oidc.sessions_of("alice"))[0].tokens
    secrets = [tokens.id_token, tokens.access_token, tokens.refresh_token or "", *browser.cookies]
    secrets += [part for token in secrets[:3] for part in token.split(".")]
    for path in ("/auth/session", "/public", "/projected"):
        text = (await browser.get(path)).text
        assert "alice" in text
        assert not [secret for secret in secrets if len(secret) > 8 and secret in text]


async def test_the_application_decides_what_is_shown() -> None:
    async def create_public_session(context: PublicSessionContext[Any, Any]) -> object:
        return {"who": context.base.sub, "plan": context.data}

    _, browser = await signed_in_world(
        mount=mount,
        create_public_session=create_public_session,
        load_request_data=lambda _context: "free",
    )
    assert (await browser.get("/public")).json() == {"who": "alice", "plan": "free"}
    document = (await browser.get("/auth/session")).json()
    assert set(document) == {
        *("who", "plan", "is_authenticated", "expires_at", "session_state", "csrf_token")
    }


@pytest.mark.parametrize("reason", ["down", "no iframe"])
async def test_session_management_is_unsupported(reason: str) -> None:
    world: World = make_world()
    if reason == "down":
        world.op.faults.put("metadata", ServerError(), times=9)
    else:
        world.op.edits.put("metadata", lambda said: said | {"check_session_iframe": None})
    config = await world.oidc.get_session_management_config()
    assert config.supported is False


async def test_the_url_of_the_script_names_its_version() -> None:
    def with_url(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/url")
        async def url(request: Request) -> str:
            return oidc.script_url(request)

    answer = await make_world(mount=with_url).browser().get("/url")
    assert answer.json() == f"/auth/oidc-context.js?v={SCRIPT_VERSION}"


async def ended(world: World, browser: Any) -> tuple[object, object]:
    document = (await browser.get("/auth/session")).json()
    return document["is_authenticated"], document.get("ended")


async def test_the_page_is_told_why_the_session_is_over() -> None:
    world, browser = await signed_in_world(session_store="memory")
    assert await ended(world, browser) == (True, None)
    await world.oidc.revoke(sub="alice")
    assert await ended(world, browser) == (False, "revoked")
    assert await ended(world, browser) == (False, None), "the cookie is gone"


async def test_asking_for_the_session_is_no_activity_unless_somebody_is_there() -> None:
    world, browser = await signed_in_world(settings={"idle_timeout": 600})
    first = (await browser.get("/auth/session")).json()["idle_expires_at"]
    assert first == world.time.now + 600
    world.time.advance(300)
    assert (await browser.get("/auth/session")).json()["idle_expires_at"] == first
    moved = (await browser.get("/auth/session?active=1")).json()["idle_expires_at"]
    assert moved == first + 300
    world.time.advance(599)
    assert await ended(world, browser) == (True, None)
    world.time.advance(1)
    assert await ended(world, browser) == (False, "expired")
