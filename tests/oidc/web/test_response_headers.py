"""docs/security.md names every header of every answer, and the routes answer so."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from fastapi_oidc import OIDC, Code, ProviderError
from fastapi_oidc.testing import sign_in
from fastapi_oidc.web.browser.script import SCRIPT
from tests.oidc.world import LOGIN_URL, World, make_world

SECTION: Final = (
    (Path(__file__).parents[3] / "docs" / "security.md")
    .read_text()
    .split("## Response headers")[1]
    .split("\n## ")[0]
)
COLUMNS: Final = (
    "cache-control",
    "vary",
    "referrer-policy",
    "x-content-type-options",
    "x-frame-options",
    "content-security-policy",
)
OF_THE_BODY: Final = {"content-length", "content-type"}
PAGE: Final = {"sec-fetch-mode": "navigate"}
IFRAME: Final = {"sec-fetch-dest": "iframe"}

Asking: TypeAlias = Callable[[World], Awaitable[httpx.Response]]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| \n").split("|")]


def documented() -> dict[str, list[str]]:
    """The cells of each row of the table by the answer that the row is about."""
    rows = [cells(line) for line in SECTION.splitlines() if line.startswith("| `")]
    return {f"{row[0]} {row[1]}": row[2:] for row in rows}


def asking(method: str, path: str, **options: Any) -> Asking:
    async def ask(world: World) -> httpx.Response:
        async with world.browser() as browser:
            return await browser.request(method, path, follow_redirects=False, **options)

    return ask


def signed_in(method: str, path: str, **headers: str) -> Asking:
    async def ask(world: World) -> httpx.Response:
        browser = await world.signed_in()
        return await browser.request(method, path, follow_redirects=False, headers=headers)

    return ask


async def signing_in(world: World) -> httpx.Response:
    landed = await sign_in(world.browser(), LOGIN_URL, user="alice")
    return next(each for each in landed.history if each.url.path == "/auth/callback")


async def silently(world: World) -> httpx.Response:
    browser = await world.signed_in()
    return await browser.get("/auth/login?silent=1", headers=IFRAME, follow_redirects=True)


class Noting(httpx.ASGITransport):
    """Keeps what the application answered the provider."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.answer = await super().handle_async_request(request)
        return self.answer


async def told_of_a_logout(world: World) -> httpx.Response:
    world.op.back_channel_transport = transport = Noting(world.app)
    await world.signed_in()
    await world.op.log_out("alice")
    return transport.answer


async def signing_out_without_the_provider(world: World) -> httpx.Response:
    browser = await world.signed_in()

    async def unreachable() -> None:
        raise ProviderError(Code.PROVIDER_UNREACHABLE)

    world.oidc.site.party.provider.metadata = unreachable  # type: ignore[method-assign,assignment]
    return await browser.post("/auth/logout", headers=PAGE)


LOST: Final = "/auth/callback?state=unknown&code=1"
NEWEST: Final = f"/auth/oidc-context.js?v={SCRIPT.version}"
KNOWN: Final = {"if-none-match": SCRIPT.etag}
FOREIGN: Final = {"origin": "https://elsewhere.test"}

ANSWERS: dict[str, Asking] = {
    "`GET /login` 302 to the provider": asking("GET", "/auth/login"),
    "`GET /login` 422 for bad parameters": asking("GET", "/auth/login?prompt=no"),
    "`GET /callback` 302 signed in": signing_in,
    "`GET /callback` 200 silent page": silently,
    "`GET /callback` 200 silent page, transaction lost": asking("GET", LOST, headers=IFRAME),
    "`GET /callback` 400 page": asking("GET", LOST, headers=PAGE),
    "`GET /callback` 400 JSON": asking("GET", LOST),
    "`POST /logout` 302 to the provider": signed_in("POST", "/auth/logout"),
    "`POST /logout` 200 page, provider unreachable": signing_out_without_the_provider,
    "`POST /logout` 403 JSON": asking("POST", "/auth/logout", headers=FOREIGN),
    "`GET /logged-out` 302": asking("GET", "/auth/logged-out"),
    "`POST /backchannel-logout` 200 empty": told_of_a_logout,
    "`POST /backchannel-logout` 400 JSON": asking("POST", "/auth/backchannel-logout"),
    "`GET /session` 200 JSON": asking("GET", "/auth/session"),
    "`GET /session-management` 200 JSON": asking("GET", "/auth/session-management"),
    "`GET /oidc-context.js` 200": asking("GET", "/auth/oidc-context.js"),
    "`GET /oidc-context.js?v=` 200 this version": asking("GET", NEWEST),
    "`GET /oidc-context.js` 304": asking("GET", "/auth/oidc-context.js", headers=KNOWN),
    "`require_auth` 302 to the login": asking("GET", "/me", headers=PAGE),
    "`require_auth` 401 page": asking("POST", "/form", headers=PAGE),
    "`require_auth` 401 JSON": asking("GET", "/me"),
    "`request.state.oidc` 200 with a session": signed_in("GET", "/"),
    "`request.state.oidc` 200 without a session": asking("GET", "/"),
}


def guarded_form(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.post("/form", dependencies=[Depends(oidc.require_auth)])
    async def form() -> None: ...


def policies() -> dict[str, str]:
    """The two policies below the table, with the hashes left out as in the document."""
    return dict(re.findall(r"^- ([a-z ]+): `([^`]+)`", SECTION, re.MULTILINE))


def as_documented(response: httpx.Response) -> list[str]:
    """The cells that describe `response`."""
    headers = response.headers
    policy = re.sub(r"'sha256-[^']+'", "'sha256-…'", headers.get("content-security-policy", "-"))
    named = {value: name for name, value in policies().items()}
    values = {name: headers.get(name, "-") for name in COLUMNS} | {
        "content-security-policy": named.get(policy, policy)
    }
    others = sorted(set(headers) - set(COLUMNS) - OF_THE_BODY)
    return [*values.values(), ", ".join(others) or "-"]


def test_the_table_names_the_answers_that_are_tested_here() -> None:
    assert list(documented()) == list(ANSWERS)


def test_the_table_has_a_row_for_every_route() -> None:
    routes = [route for route in make_world().oidc.router.routes if isinstance(route, APIRoute)]
    described = " ".join(documented())
    assert len(routes) == 8
    assert [route.path for route in routes if f"{route.path}`" not in described] == []


@pytest.mark.parametrize("answer", list(ANSWERS))
async def test_an_answer_has_exactly_the_headers_of_its_row(answer: str) -> None:
    response = await ANSWERS[answer](make_world(mount=guarded_form))
    assert f" {response.status_code} " in f"{answer} "
    assert as_documented(response) == documented()[answer]
