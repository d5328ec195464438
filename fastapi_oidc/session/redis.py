"""Stores and lock on Redis, for any number of processes; needs the extra `redis`.

Redis errors, time-outs included, become a SessionError that is answered 503.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Generic

from redis.asyncio import Redis
from redis.exceptions import RedisError

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.model import Identity, OIDCSession, RevocationRecord
from fastapi_oidc.session.runs import SharedRuns
from fastapi_oidc.session.stores import revocation_key, revocation_keys, unavailable_as

DEFAULT_PREFIX = "fastapi_oidc:"
REMEMBERED_SECONDS = 60
_POLL_SECONDS = 0.05

_log = logging.getLogger(__name__)

_KEEP_LATEST = """
local kept = tonumber(redis.call('GET', KEYS[1]) or '0')
local ends = math.max(tonumber(ARGV[2]), redis.call('EXPIRETIME', KEYS[1]))
redis.call('SET', KEYS[1], math.max(tonumber(ARGV[1]), kept), 'EXAT', ends)
"""
_FINISH = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
if ARGV[2] ~= '' then redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3], 'NX') end
"""


class RedisSessionStore(Generic[Identity]):
    """Sessions as JSON rows, tokens in the clear, that Redis drops at `session.expires_at`."""

    def __init__(
        self, client: Redis, identity_type: type[Identity], *, prefix: str = DEFAULT_PREFIX
    ) -> None:
        self._client = _binary(client)
        self._codec = SessionCodec(identity_type)
        self._prefix = f"{prefix}session:"

    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """The session; None when unknown or over; SessionError (session.store_unavailable)."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            row = await self._client.get(self._prefix + id)
        return self._codec.decode(_bytes(row)) if row is not None else None

    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """Keeps `session`; raises SessionError (session.store_unavailable)."""
        row = self._codec.encode(session)
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._client.set(self._prefix + id, row, exat=session.expires_at)

    async def delete(self, id: str, /) -> None:
        """Forgets `id`; raises SessionError (session.store_unavailable)."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._client.delete(self._prefix + id)


class RedisRevocationStore:
    """One key per sid and per sub; a session is looked up with one command. Redis 7.0 or newer."""

    def __init__(self, client: Redis, *, prefix: str = DEFAULT_PREFIX) -> None:
        self._client = _binary(client)
        self._prefix = f"{prefix}revoked:"
        self._keep_latest = client.register_script(_KEEP_LATEST)

    async def revoke(self, record: RevocationRecord, /) -> None:
        """Keeps the record; raises SessionError (session.revocation_unavailable)."""
        key = self._key(revocation_key(record))
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            await self._keep_latest(keys=[key], args=[record.issued_at, record.expires_at])

    async def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        """Whether a record covers it; raises SessionError (session.revocation_unavailable)."""
        keys = [self._key(parts) for parts in revocation_keys(session)]
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            moments = await self._client.mget(keys)
        return any(
            moment is not None and session.authenticated_at <= int(moment) for moment in moments
        )

    def _key(self, parts: tuple[str, ...]) -> str:
        return self._prefix + hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class RedisRefreshLock:
    """One run per session over all processes that share this Redis.

    `ttl` seconds bound a run: a run that takes longer is stopped, so two never overlap, and when
    its process dies another takes over after that time. `wait` seconds bound the waiting.
    """

    def __init__(
        self,
        client: Redis,
        *,
        prefix: str = DEFAULT_PREFIX,
        ttl: float = 30.0,
        wait: float = 35.0,
    ) -> None:
        self._client = _binary(client)
        self._prefix, self._ttl, self._wait = prefix, ttl, wait
        self._finish = client.register_script(_FINISH)
        self._runs = SharedRuns()

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        """The result of the one run; see `RefreshLock`."""
        return await self._runs.run(session_id, lambda: self._run(session_id, operation))

    async def _run(self, session_id: str, operation: Callable[[], Awaitable[bytes]]) -> bytes:
        owner = secrets.token_hex(16)
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            remembered = await self._acquired_or_remembered(session_id, owner)
        if remembered is not None:
            return remembered
        return await self._run_as_owner(session_id, owner, operation)

    async def _acquired_or_remembered(self, session_id: str, owner: str) -> bytes | None:
        """None once this caller holds the lock; else the result of a run that has ended."""
        lock, result = self._keys(session_id)
        async with asyncio.timeout(self._wait):
            while not await self._client.set(lock, owner, nx=True, px=int(self._ttl * 1000)):
                remembered = await self._client.get(result)
                if remembered is not None:
                    return _bytes(remembered)
                await asyncio.sleep(_POLL_SECONDS)
        return None

    async def _run_as_owner(
        self, session_id: str, owner: str, operation: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        result = b""
        try:
            result = await operation()
            return result
        finally:
            await asyncio.shield(self._released(session_id, owner, result))

    async def _released(self, session_id: str, owner: str, result: bytes) -> None:
        """Gives the lock back with the result; a Redis that fails here cannot undo the run."""
        try:
            await self._finish(
                keys=list(self._keys(session_id)), args=[owner, result, REMEMBERED_SECONDS]
            )
        except RedisError as error:
            _log.warning("refresh lock not released, it ends by itself: %s", type(error).__name__)

    def _keys(self, session_id: str) -> tuple[str, str]:
        return f"{self._prefix}lock:{session_id}", f"{self._prefix}result:{session_id}"


def _binary(client: Redis) -> Redis:
    if client.connection_pool.connection_kwargs.get("decode_responses"):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, "make the Redis client without decode_responses"
        )
    return client


def _bytes(answer: bytes | str) -> bytes:
    return answer if isinstance(answer, bytes) else answer.encode()
