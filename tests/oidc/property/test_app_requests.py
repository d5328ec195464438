"""Whatever is sent to a whole application, it answers in its own words and gives nothing away."""

import asyncio
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastapi_oidc import OIDCSession, PersistContext
from fastapi_oidc.settings import revealed
from tests.oidc.flows.fallible_stores import FallibleStore, Outage
from tests.oidc.property.app_requests import Answered, Sent, answer, requests
from tests.oidc.world import World, make_world

DOWN = {502, 503, 504}


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """An application, what a browser knows of it, and what nobody may learn from it."""

    world: World
    parameters: dict[str, str]
    cookies: dict[str, str]
    secrets: list[str]


async def prepared(**options: Any) -> Target:
    sessions: list[OIDCSession[Any]] = []

    def before_session_persist(context: PersistContext[Any]) -> None:
        sessions.append(context.session)

    line = options.pop("transport", None) or Line()
    world = make_world(before_session_persist=before_session_persist, transport=line, **options)
    line.provider = httpx.ASGITransport(world.op.app)
    browser = await world.signed_in()
    begun = await browser.get("/auth/login", follow_redirects=False)
    sent = parse_qs(urlsplit(begun.headers["location"]).query)
    cookies = {name: value for name, value in browser.cookies.items() if "oidc" in name}
    parameters = {"state": sent["state"][0], "iss": world.op.issuer, "code": "x"}
    chosen: Any = world.oidc.settings
    tokens = sessions[0].tokens
    secrets = [
        revealed(chosen.client_secret),
        *map(revealed, chosen.cookie_secret),
        *(tokens.id_token, tokens.access_token, tokens.refresh_token),
        *("Traceback", "/fastapi_oidc/"),
    ]
    return Target(world, parameters, cookies, [secret for secret in secrets if secret])


class Line(httpx.AsyncBaseTransport):
    """The way to the provider."""

    is_down = False
    provider: httpx.AsyncBaseTransport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("no route")
        return await self.provider.handle_async_request(request)


class Lines(logging.Handler):
    """What the library logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


OUTAGE, LINE = Outage(), Line()
STANDING = asyncio.run(prepared())
POSTING = asyncio.run(prepared(settings={"response_mode": "form_post"}))
FALLEN = asyncio.run(prepared(session_store=FallibleStore(OUTAGE), transport=LINE))


@pytest.fixture(scope="module", autouse=True)
def log() -> Iterator[Lines]:
    """The log of all examples of this module."""
    lines, logger = Lines(), logging.getLogger("fastapi_oidc")
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.DEBUG)
    yield lines
    logger.removeHandler(lines)
    logger.setLevel(level)


@pytest.fixture(scope="module")
def outage() -> Iterator[None]:
    """The provider and the session store of FALLEN cannot be reached."""
    FALLEN.world.time.advance(4000)
    LINE.is_down = OUTAGE.is_down = True
    yield
    LINE.is_down = OUTAGE.is_down = False


def require_discreet(target: Target, answered: Answered, log: Lines) -> None:
    output = answered.body.decode("latin-1") + repr(answered.headers)
    # The one place for an ID token: the hint in the browser's way to the provider.
    output = re.sub(r"id_token_hint=[\w.-]+", "", output)
    output += "\n".join(log.lines) + repr(target.world.events)
    assert [secret for secret in target.secrets if secret in output] == []
    assert all("\n" not in line for line in log.lines)
    log.lines.clear()
    target.world.events.clear()


def require_at_home(target: Target, answered: Answered) -> None:
    """Every redirect leads to a path of the application or to the provider."""
    location = answered.location
    if location is not None and not location.startswith(target.world.op.issuer + "/"):
        assert re.fullmatch(r"/(?![/\\\\])[!-~]*", location), location


def check(target: Target, sent: Sent, log: Lines) -> Answered:
    answered = asyncio.run(answer(target.world.app, sent))
    require_discreet(target, answered, log)
    require_at_home(target, answered)
    return answered


def requests_to(*targets: Target) -> st.SearchStrategy[tuple[Target, Sent]]:
    each = [st.tuples(st.just(it), requests(it.parameters, it.cookies)) for it in targets]
    return st.one_of(each)


@settings(max_examples=200)
@given(request=requests_to(STANDING, POSTING))
def test_every_request_has_an_answer(request: tuple[Target, Sent], log: Lines) -> None:
    assert check(*request, log).status < 500


@settings(max_examples=100)
@given(request=requests_to(FALLEN))
def test_an_outage_is_named_as_one(request: tuple[Target, Sent], log: Lines, outage: None) -> None:
    status = check(*request, log).status
    assert status < 500 or status in DOWN
