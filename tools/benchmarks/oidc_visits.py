"""Applications that are asked for /me in the process, and the sessions of their browsers."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from starlette.types import Message

from fastapi_oidc import OIDCMiddleware, OIDCSession, SessionCodec, StandardIdentity
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.reference import SessionReference
from tools.benchmarks.oidc_peers import Visited
from tools.benchmarks.oidc_sessions import (
    a_scope,
    a_session_of_2_kb,
    an_app,
    an_instance,
    our_endpoint,
)
from tools.benchmarks.rounds import Batch

Session = OIDCSession[StandardIdentity]

CODEC = SessionCodec(StandardIdentity)


Sessions = Sequence[Kept[StandardIdentity]]


async def ours(sessions: Sessions, **options: Any) -> Visited:
    """Ours with these options of `OIDC`, and a browser for each session."""
    oidc, app = an_instance(**options), an_app(our_endpoint)
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    keeper, cookies = oidc.site.party.keeper, []
    for kept in sessions:
        await keeper.save(kept)
        changes = keeper.cookies(kept, kept.session.created_at)
        cookies.append("; ".join(f"{change.name}={change.value}" for change in changes))
    return Visited(app, tuple(cookies))


def asking(runner: asyncio.Runner, visited: Visited) -> Batch:
    """The batch that asks for /me, each browser in its turn; each answer must be 200."""
    headers = [
        [(b"host", b"app.example.com"), (b"cookie", cookie.encode())] for cookie in visited.cookies
    ]
    turns = cycle(headers)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message.get("status", 200) != 200:
            raise RuntimeError(f"the benchmark was answered {message['status']}")

    async def ask(times: int) -> None:
        for _ in range(times):
            await visited.app(a_scope(next(turns)), receive, send)

    return lambda times: runner.run(ask(times))


def a_session_of(size: int) -> Session:
    """One of so many bytes of JSON: it grows with the groups that the provider names, by UUID."""
    session = _smallest()
    missing = size - len(CODEC.encode(session)) - len(',"groups":[]')
    groups = [str(uuid.uuid4()) for _ in range(missing // len(f',"{uuid.uuid4()}"'))]
    return session.model_copy(update={"claims": session.claims | {"groups": groups}})


def many(count: int, like: Session) -> list[Kept[StandardIdentity]]:
    """As many sessions of as many users, each with the place that it would have in a store."""
    return [
        Kept(
            like.model_copy(update={"id": secrets.token_urlsafe(16), "sub": f"user-{number}"}),
            SessionReference.new(),
        )
        for number in range(count)
    ]


def _smallest() -> Session:
    session = a_session_of_2_kb()
    tokens = session.tokens.model_copy(update={"id_token": "id-token", "refresh_token": None})
    claims = {"sub": session.sub}
    identity = StandardIdentity.from_claims("alice")
    return session.model_copy(update={"tokens": tokens, "claims": claims, "identity": identity})
