"""The ways in which a session ends, each of which says whether it surely has."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import httpx

from tools.load.causes import NO_ANSWER, Span
from tools.load.rules import Rule
from tools.load.site import Answer
from tools.load.visit import Visit

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
