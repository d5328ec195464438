"""The symptoms in docs/troubleshooting.md are read by those who make the mistakes.

Most are stable codes, each of which is tested where it arises. The others are quoted: here the
mistakes are made, and what their maker reads has these words.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from fastapi_oidc import Code
from fastapi_oidc.events import EventName
from fastapi_oidc.testing import sign_in, sign_in_sync
from tests.oidc.web.asking import begin
from tests.oidc.world import BASE_URL, make_world, signed_in_world

PAGE: Final = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text()
OF_BROWSERS: Final = {"fetch('/auth/logout')", "Retry-After"}


def symptoms() -> set[str]:
    """What is quoted in the first cells of the tables."""
    rows = [line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| ")]
    return {a or b for row in rows for a, b in re.findall(r'"([^"`]+)"|`([^`]+)`', row)}


async def another_host() -> None:
    async with make_world().browser() as browser:
        await browser.get("/auth/login", headers={"host": "localhost:8000"}, follow_redirects=False)


async def visit_another_process(**options: Any) -> None:
    world, browser = await signed_in_world(**options)
    settings = {"cookie_secret": world.oidc.settings.cookie_secret} if options else {}
    async with make_world(settings=settings, time=world.time, **options).browser() as other:
        other.cookies.update(dict(browser.cookies))
        await other.get("/me")


async def memory_of_another_process() -> None:
    await visit_another_process(session_store="memory")


async def no_cors() -> None:
    page = {"origin": "https://pages.test", "sec-fetch-mode": "cors"}
    async with make_world().browser() as browser:
        await browser.get("/me", headers=page | {"sec-fetch-site": "cross-site"})


async def a_link_to_the_sign_out() -> str:
    async with make_world().browser() as browser:
        return (await browser.get("/auth/logout", headers={"accept": "text/html"})).text


async def a_session_that_no_middleware_reads() -> None:
    app = FastAPI()

    @app.get("/me")
    async def me(request: Request) -> object:
        return request.state.oidc

    await begin(app, "/me")


async def a_client_without_the_provider() -> None:
    with TestClient(make_world().app, base_url=BASE_URL) as client:
        sign_in_sync(client, "/me", user="alice")


async def a_user_whom_nobody_knows() -> str:
    async with make_world().browser() as browser:
        return (await sign_in(browser, "/me", user="carol")).text


MADE: Final[dict[str, Callable[[], Awaitable[str | None]]]] = {
    "a login began at the host": another_host,
    "was not sealed with it": visit_another_process,
    "not in the memory of this process": memory_of_another_process,
    "Failed to fetch": no_cors,
    "Signing out is a POST": a_link_to_the_sign_out,
    "'State' object has no attribute 'oidc'": a_session_that_no_middleware_reads,
    "this client does not reach the provider": a_client_without_the_provider,
    "there is no user": a_user_whom_nobody_knows,
}


def test_a_symptom_is_a_code_or_has_a_mistake() -> None:
    assert symptoms() - {*Code, *EventName} - OF_BROWSERS == MADE.keys()


@pytest.mark.parametrize("words", MADE)
async def test_the_maker_of_a_mistake_reads_its_symptom(
    words: str, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        said = await MADE[words]()
    except (AttributeError, RuntimeError) as error:
        said = str(error)
    assert words in f"{said}\n{caplog.text}"
