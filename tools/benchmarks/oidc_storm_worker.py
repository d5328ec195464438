"""One process of the application in a storm: it signs in, and asks for its sessions all at once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from pydantic import SecretStr
from starlette.types import Message

from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.session.redis import RedisRefreshLock, RedisSessionStore
from tools.benchmarks.oidc_sessions import SECRET, a_scope, a_session_of_2_kb

Answers = Counter[str]
"""How many answers of each kind: the refreshes of a session, or the status of a refusal."""

GOOD = "refreshed once"
LATER = " (after a 503 with Retry-After)"


@dataclass(frozen=True)
class Passed:
    """What one process saw: answers, seconds until the last, and of the longest single request."""

    answers: Answers
    seconds: float
    held: float


@dataclass(frozen=True)
class Plan:
    """What the processes of one storm have in common; times in seconds."""

    mode: str
    issuer: str
    redis: str
    sessions: int
    requests: int
    provider_timeout: float


def work(connection: Connection, plan: Plan) -> None:
    """Signs in if it is told to, asks `plan.requests` times for each session, ends when told."""
    logging.disable()  # refusals are counted
    with asyncio.Runner() as runner:
        oidc = runner.run(an_instance(plan))
        if connection.recv() == "sign in":
            connection.send(runner.run(signed_in(oidc, plan)))
        cookies: list[str] = connection.recv()
        app = an_app(oidc)
        connection.send(runner.run(storm(app, cookies, plan.requests)))
        # What is under way goes on; a process that stands still for long loses its locks.
        runner.run(asyncio.to_thread(connection.recv))
        runner.run(oidc.site.aclose())


async def an_instance(plan: Plan) -> OIDC[StandardIdentity]:
    options: dict[str, Any] = {}
    if plan.mode == "memory":
        options["session_store"] = "memory"
    if plan.mode.startswith("redis store"):
        options["session_store"] = RedisSessionStore.from_url(plan.redis, StandardIdentity)
    if plan.mode.endswith("lock"):
        options["refresh_lock"] = RedisRefreshLock.from_url(plan.redis)
    return OIDC(
        OIDCSettings(
            issuer=plan.issuer,
            client_id="app",
            cookie_secret=(SecretStr(SECRET),),
            base_url="https://app.example.com",
            allow_insecure_http=True,
            provider_timeout=plan.provider_timeout,
        ),
        **options,
    )


async def signed_in(oidc: OIDC[StandardIdentity], plan: Plan) -> list[str]:
    """A cookie for each session; the access tokens of all have just expired."""
    keeper, one, now = oidc.site.party.keeper, a_session_of_2_kb(), int(time.time())
    cookies = []
    for number in range(plan.sessions):
        tokens = one.tokens.model_copy(
            update={"refresh_token": f"refresh-{number}", "expires_at": now - 1}
        )
        session = one.model_copy(
            update={"id": f"session-{number}", "issuer": plan.issuer, "tokens": tokens}
        )
        kept = keeper.placed(session)
        await keeper.save(kept)
        (change,) = keeper.cookies(kept, now)
        cookies.append(f"{change.name}={change.value}")
    return cookies


def an_app(oidc: OIDC[StandardIdentity]) -> FastAPI:
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)

    @app.get("/me")
    async def me(
        session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)],
    ) -> dict[str, int]:
        return {"generation": session.generation}

    return app


async def storm(app: FastAPI, cookies: list[str], requests: int) -> Passed:
    began = time.perf_counter()
    asked = [asked_for(app, cookie) for _ in range(requests) for cookie in cookies]
    kinds, held = zip(*await asyncio.gather(*asked), strict=True)
    return Passed(Counter(kinds), time.perf_counter() - began, max(held))


async def asked_for(app: FastAPI, cookie: str) -> tuple[str, float]:
    """The answer that is no 503 any more; before, it is asked again when it says.

    With it the seconds of the longest of these requests.
    """
    later, held = "", 0.0
    while True:
        began = time.perf_counter()
        answer = await one_answer(app, cookie)
        held = max(held, time.perf_counter() - began)
        if answer["status"] != 503:
            return kind_of(answer) + later, held
        later = LATER
        await asyncio.sleep(int(dict(answer["headers"])[b"retry-after"]))


def kind_of(answer: Mapping[str, Any]) -> str:
    status, body = answer["status"], json.loads(answer["body"])
    if status != 200:
        return f"{status}, {body.get('code', 'no code')}"
    return GOOD if body["generation"] == 1 else f"refreshed {body['generation']} times"


async def one_answer(app: FastAPI, cookie: str) -> dict[str, Any]:
    headers = [(b"host", b"app.example.com"), (b"cookie", cookie.encode())]
    answer: dict[str, Any] = {}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        answer.update(message)  # of the body, which is one message, and the start

    await app(a_scope(headers), receive, send)
    return answer
