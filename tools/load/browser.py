"""A person who signs in, looks around, signs out in one way or another, and comes again."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

import httpx

from examples.fleet.status import SESSION_PATH, TOKENS_PATH, SessionSeen
from fastapi_oidc.testing import DevUser, sign_in
from tools.load.rules import NO_ANSWER, Rule, Span
from tools.load.site import Answer, Site

TRIES: Final = 60
"""How often somebody asks who is not answered; with their pauses, for longer than any fault."""
PERSON: Final = re.compile(r"Person \d{3}")
"""How the people of the load are called, on every page that names one."""


@dataclass(slots=True)
class Visit:
    """Somebody who is signed in `since` a moment; `first` is what the login told of the session."""

    site: Site
    http: httpx.AsyncClient
    name: str
    first: SessionSeen
    since: float
    generation: int = 0
    lives: bool = True

    async def look(self) -> bool:
        """Asks who this is, as each page of an application does; whether there was an answer."""
        asked_at = int(time.time())
        answer = await self.site.answer("session", lambda: self.http.get(self._at(SESSION_PATH)))
        if self._is_served(answer) and answer.response is not None:
            self._judge(SessionSeen.model_validate(answer.response.json()), asked_at)
        return not answer.failed

    async def ask_for_tokens(self) -> None:
        """Tasks without a request ask for this session's token, while requests refresh it."""
        asked_at = int(time.time())
        answer = await self.site.answer("tokens", lambda: self.http.get(self._at(TOKENS_PATH)))
        if self._is_served(answer) and answer.response is not None:
            over = asked_at - min(answer.response.json())
            if over > 0:
                self.site.verdict.broken(Rule.FRESH_TOKEN, f"{self.first.sub}, {over} s, by a task")

    async def last_look(self) -> bool:
        """Alone, and until there is an answer: nothing is under way afterwards."""
        for _ in range(TRIES):
            if await self.look():
                return True
        return False

    async def open_page(self) -> str:
        """The console's first page, which asks every monitor; empty when it is refused."""
        answer = await self.site.answer("page", lambda: self.http.get(self._at("/")))
        if not self._is_served(answer) or answer.response is None:
            return ""
        named = set(PERSON.findall(answer.response.text))
        if named != {self.name}:
            what = f"the page of {self.name} names {sorted(named)}"
            self.site.verdict.broken(Rule.OWN_SESSION, what)
        return answer.response.text

    def _at(self, path: str) -> str:
        return self.site.url + path

    def _is_served(self, answer: Answer) -> bool:
        """Whether the answer is for a session; a refusal of one that lives is a breach."""
        if answer.status == httpx.codes.OK:
            return True
        if self.lives and not answer.failed:
            self.lives = False
            span = Span(self.since, answer.span.ended)
            self.site.broken_unless_lost(f"{self.name} was answered {answer.status}", span)
        return False

    def _judge(self, seen: SessionSeen, asked_at: int) -> None:
        verdict, first = self.site.verdict, self.first
        if (seen.id, seen.sub, seen.sid) != (first.id, first.sub, first.sid):
            what = f"{first.sub} was answered as {seen.sub}, session {seen.id} for {first.id}"
            verdict.broken(Rule.OWN_SESSION, what)
        over = asked_at - (seen.access_token_expires_at or 0)
        if over > 0:
            verdict.broken(Rule.FRESH_TOKEN, f"{first.sub}, {over} s, by worker {seen.worker}")
        self.generation = max(self.generation, seen.generation)

    def judge_refreshes(self, now: float) -> None:
        """As many token calls as the session has seen refreshes, once nobody asks any more."""
        self.site.tokens.read()
        calls = self.site.tokens.refreshes[self.first.sid or ""]
        lost = self.site.causes.lose_answers(Span(self.since, now))
        if calls < self.generation or (calls > self.generation and not lost):
            what = f"{self.first.sub}: {calls} token calls for {self.generation} refreshes"
            self.site.verdict.broken(Rule.ONE_TOKEN_CALL, what)


Way: TypeAlias = Callable[[Visit], Awaitable[bool]]

OVER_PATHS: Final = ("/auth/", "/end-session")
"""Where a sign-out leads, there and back; what comes next is for those who are signed in."""
CSRF_TOKEN: Final = re.compile(r'name="csrf_token" value="([^"]+)"')


async def sign_out(visit: Visit) -> bool:
    """By the button, and over the provider's page."""
    leaving = visit.http.post(f"{visit.site.url}/auth/logout", follow_redirects=False)
    return _surely(visit, await _signed_out(visit, "sign-out", leaving))


async def sign_out_everywhere(visit: Visit) -> bool:
    """By the console's menu, which ends all sessions of this person."""
    found = CSRF_TOKEN.search(await visit.open_page())
    if found is None:
        return False
    leaving = visit.http.post(
        f"{visit.site.url}/account/sign-out-everywhere",
        data={"csrf_token": found[1]},
        follow_redirects=False,
    )
    return _surely(visit, await _signed_out(visit, "sign-out everywhere", leaving))


async def back_channel(visit: Visit) -> bool:
    """By the provider; the session has ended when the application took the logout token."""
    site, began = visit.site, time.monotonic()
    await site.op.log_out(visit.first.sub)
    span = Span(began, time.monotonic())
    site.latencies.note("back-channel logout", span.ended - began)
    status = site.logouts.statuses.pop(visit.first.sid or "", NO_ANSWER)
    # 400 is also what a logout that cannot be kept is answered (Back-Channel Logout 1.0, 2.8).
    explained = site.causes.explain(status, span) or site.causes.lose_endings(span)
    if status != httpx.codes.OK and not explained:
        what = f"back-channel logout of {visit.first.sub}: {status}"
        site.verdict.broken(Rule.NO_CAUSELESS_FAILURE, what)
    return status == httpx.codes.OK


WAYS: Final[tuple[Way, ...]] = (sign_out, sign_out_everywhere, back_channel)


async def _signed_out(visit: Visit, kind: str, leaving: Awaitable[httpx.Response]) -> Answer:
    async def followed() -> httpx.Response:
        answer = await leaving
        while answer.next_request and answer.next_request.url.path.startswith(OVER_PATHS):
            answer = await visit.http.send(answer.next_request, follow_redirects=False)
        return answer

    return await visit.site.answer(kind, followed)


def _surely(visit: Visit, answer: Answer) -> bool:
    return not (answer.failed or visit.site.causes.lose_endings(answer.span))


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
                asking = [visit.ask_for_tokens()] if self.chance.random() < 1 / 4 else []
                await asyncio.gather(*(visit.look() for _ in range(at_once)), *asking)

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
