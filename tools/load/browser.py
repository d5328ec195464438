"""A person who signs in, looks around, signs out in one way or another, and comes again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import httpx

from examples.fleet.status import SESSION_PATH, SessionSeen
from fastapi_oidc.testing import DevUser, sign_in
from tools.load.leaving import WAYS, Way
from tools.load.rules import Rule
from tools.load.site import Answer, Site
from tools.load.visit import TRIES, Visit

COPIES: Final = 2
"""Requests with the cookie of an ended session, which any worker may get."""


@dataclass(slots=True)
class Browser:
    """One person with one browser; a visit lasts `shortest` to `longest` seconds."""

    site: Site
    user: DevUser
    chance: Random
    shortest: float
    longest: float
    ways: Sequence[Way] = WAYS

    async def run(self, is_over: asyncio.Event) -> None:
        """One visit after the other, the last one to its end."""
        while not is_over.is_set():
            async with self.site.client() as http:
                visit = await self.enter(http)
                if visit is None:
                    await asyncio.sleep(self.site.breath)
                    continue
                await self._use(visit)
                if await visit.last_look() and visit.lives:
                    visit.judge_refreshes(time.monotonic())
                if visit.lives:
                    await self.leave(visit)
                self.site.tokens.forget(visit.first.sid or "")

    async def enter(self, http: httpx.AsyncClient) -> Visit | None:
        """None when a fault kept this person out, or the rule on those that are served."""
        login = f"{self.site.url}/auth/login?return_to={SESSION_PATH}"
        answer = await self.site.answer("login", lambda: sign_in(http, login, user=self.user.sub))
        if answer.failed or answer.response is None:
            return None
        if answer.response.status_code != httpx.codes.OK:
            said = f"{self.user.sub} cannot sign in: {answer.response.status_code}"
            self.site.broken_unless_lost(said, answer.span)
            return None
        seen = SessionSeen.model_validate(answer.response.json())
        if seen.sub != self.user.sub:
            what = f"{self.user.sub} signed in as {seen.sub}"
            self.site.verdict.broken(Rule.OWN_SESSION, what)
        return Visit(self.site, http, self.user.name, seen, answer.span.began)

    async def _use(self, visit: Visit) -> None:
        """One or several requests at a time."""
        until = time.monotonic() + self.chance.uniform(self.shortest, self.longest)
        while visit.lives and time.monotonic() < until:
            if self.chance.random() < 1 / 10:
                await visit.open_page()
            else:
                at_once = self.chance.choice((1, 1, 1, 4))
                await asyncio.gather(*(visit.look() for _ in range(at_once)))

    async def leave(self, visit: Visit) -> None:
        """The session ends while requests are under way; then nobody is served with its cookie."""
        cookies = {_cookie_of(visit.http, self.site.url)}
        leave = self.chance.choice(self.ways)
        visit.lives = False  # what is answered meanwhile may be either
        ended, *_ = await asyncio.gather(leave(visit), visit.look(), visit.look())
        cookies.add(_cookie_of(visit.http, self.site.url))
        if ended:
            for cookie in cookies - {""}:
                for _ in range(COPIES):
                    await self._is_refused(cookie)

    async def _is_refused(self, cookie: str) -> None:
        """A copy of the cookie is worth nothing; a failure is no refusal, so it is tried again."""
        for _ in range(TRIES):
            answer = await self._asked_with(cookie)
            if answer.status == httpx.codes.OK:
                self.site.verdict.broken(Rule.ENDED_IS_REFUSED, f"{self.user.sub} was served")
            if not answer.failed:
                return

    async def _asked_with(self, cookie: str) -> Answer:
        async with self.site.client() as http:
            address, headers = self.site.url + SESSION_PATH, {"Cookie": cookie}
            return await self.site.answer("refused", lambda: http.get(address, headers=headers))


def _cookie_of(http: httpx.AsyncClient, url: str) -> str:
    """What this browser sends to the application, as one header."""
    request = httpx.Request("GET", url)
    http.cookies.set_cookie_header(request)
    return str(request.headers.get("Cookie", ""))
