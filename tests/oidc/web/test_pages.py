"""The pages that a person sees: what happened, the one thing to do, and the application's own."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.templating import Jinja2Templates

from fastapi_oidc import OIDC, Code, OIDCError, Page, ProviderError, SessionError
from fastapi_oidc.codes import ANSWERS
from tests.oidc.world import World, make_world, signed_in_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.api_route("/raise/{code}", methods=["GET", "POST"])
    async def refuse(code: str) -> None:
        raise OIDCError(Code(code))


def text(answer: httpx.Response, tag: str) -> str:
    return " ".join(re.findall(rf"<{tag}[^>]*>([^<]*)</{tag}>", answer.text))


def links(answer: httpx.Response) -> list[str]:
    return re.findall(r'href="([^"]*)"', answer.text)


async def refused(world: World, code: Code, method: str = "GET") -> httpx.Response:
    return await world.browser().request(method, f"/raise/{code}", headers=NAVIGATION)


@pytest.mark.parametrize("code", list(Code))
async def test_a_page_says_what_happened_and_one_thing_to_do(code: Code) -> None:
    answer = await refused(make_world(mount=mount), code)
    assert answer.status_code == ANSWERS[code].status
    assert ANSWERS[code].text.startswith(text(answer, "h1") + ".")
    assert text(answer, "title") == text(answer, "h1")
    assert 1 <= len(links(answer)) <= 2
    assert text(answer, "small") == code
    assert len(answer.content) < 4096
    assert answer.headers["cache-control"] == "no-store"
    assert "<script" not in answer.text


async def test_a_link_to_the_sign_out_signs_nobody_out() -> None:
    _, browser = await signed_in_world()
    answer = await browser.get("/auth/logout", headers=NAVIGATION)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert '<form method="post" action="/auth/logout">' in answer.json()["detail"]
    assert (await browser.get("/me")).status_code == 200


UNREACHABLE = "/raise/provider.unreachable"


@pytest.mark.parametrize(
    ("code", "method", "actions", "hrefs"),
    [
        (Code.SESSION_REQUIRED, "POST", "Sign in", ["/auth/login"]),
        (Code.ID_TOKEN_NONCE, "GET", "Sign in again", ["/auth/login"]),
        (Code.PROVIDER_UNREACHABLE, "GET", "Try again Sign in again", [UNREACHABLE, "/auth/login"]),
        (Code.SESSION_STORE_UNAVAILABLE, "POST", "Sign in again", ["/auth/login"]),
        (Code.SESSION_FORBIDDEN, "GET", "Go to the start page", ["/"]),
        (Code.CONFIGURATION_INVALID, "GET", "Go to the start page", ["/"]),
    ],
)
async def test_pages_offer_help(code: Code, method: str, actions: str, hrefs: list[str]) -> None:
    answer = await refused(make_world(mount=mount), code, method)
    assert (text(answer, "a"), links(answer)) == (actions, hrefs)


async def test_trying_again_never_leads_to_another_host() -> None:
    def with_error(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/{path:path}")
        async def down(path: str) -> None:
            raise SessionError(Code.SESSION_STORE_UNAVAILABLE)

    async with make_world(mount=with_error).browser() as browser:
        answer = await browser.get("https://app.test//evil.example/x", headers=NAVIGATION)
    assert links(answer) == ["/", "/auth/login"]


@pytest.mark.parametrize(
    ("code", "details", "seconds"),
    [
        (Code.SESSION_STORE_UNAVAILABLE, {}, {"5", "6", "7", "8", "9", "10"}),
        (Code.SESSION_REFRESH_POSTPONED, {"retry_after": 17}, {"17"}),
        (Code.SESSION_FORBIDDEN, {}, {None}),
    ],
)
@pytest.mark.parametrize("headers", [NAVIGATION, {}])
async def test_a_503_says_when_to_come_again(
    code: Code, details: dict[str, Any], seconds: set[str | None], headers: dict[str, str]
) -> None:
    def with_error(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/down")
        async def down() -> None:
            raise SessionError(code, **details)

    answer = await make_world(mount=with_error).browser().get("/down", headers=headers)
    assert answer.headers.get("retry-after") in seconds


async def test_the_application_shows_pages_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "sign-in.html").write_text("<h1>{{ page.heading }}</h1>{{ page.href }}")
    templates = Jinja2Templates(tmp_path)

    def render(request: Request, page: Page) -> Response:
        context = {"page": page}
        return templates.TemplateResponse(request, "sign-in.html", context, status_code=page.status)

    answer = await refused(make_world(mount=mount, render_page=render), Code.SESSION_REQUIRED)
    assert (answer.status_code, answer.text) == (401, "<h1>Sign in to continue</h1>/auth/login")
    assert answer.headers["www-authenticate"].startswith("Cookie")
    assert answer.headers["cache-control"] == "no-store"


def failing(_request: Request, _page: Page) -> Response:
    raise RuntimeError("a bug of the application")


@pytest.mark.parametrize("render", [failing, lambda _request, page: f"<h1>{page.heading}</h1>"])
async def test_an_own_page_that_fails_is_logged_and_the_librarys_is_shown(
    render: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await refused(make_world(mount=mount, render_page=render), Code.SESSION_FORBIDDEN)
    assert "<h1>You may not do this</h1>" in answer.text
    assert "render_page raised" in caplog.text


async def test_a_sign_out_without_the_provider_ends_on_a_page_that_says_so() -> None:
    world, browser = await signed_in_world()

    async def unreachable() -> None:
        raise ProviderError(Code.PROVIDER_UNREACHABLE)

    world.oidc.runtime.party.provider.metadata = unreachable  # type: ignore[method-assign,assignment]
    answer = await browser.post("/auth/logout", data={"return_to": "/bye"}, headers=NAVIGATION)
    assert (answer.status_code, text(answer, "h1")) == (200, "You are signed out here")
    assert "may still be signed in there" in text(answer, "p")
    assert links(answer) == ["/bye"]
    assert (await browser.get("/")).json() == {"is_authenticated": False}
