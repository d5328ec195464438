"""Stores and lock on Redis, for any number of processes; needs the extra `redis`.

Redis errors, time-outs included, become a SessionError that is answered 503.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Generic

from redis.asyncio import Redis
from redis.exceptions import RedisError

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.once import Flights
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.endings import RevocationRecord, digest, keys_of_record, keys_of_session
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.stores import unavailable_as

DEFAULT_PREFIX = "fastapi_oidc:"
REMEMBERED_SECONDS = 60
_POLL_SECONDS = 0.05

_log = logging.getLogger(__name__)

_KEEP_LATEST = """
local kept = tonumber(redis.call('GET', KEYS[1]) or '0')
local ends = math.max(tonumber(ARGV[2]), redis.call('EXPIRETIME', KEYS[1]))
redis.call('SET', KEYS[1], math.max(tonumber(ARGV[1]), kept), 'EXAT', ends)
"""
_ACQUIRE = """
local result = redis.call('GET', KEYS[2])
if result then return result end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
if ARGV[3] then redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[2]) end
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
        """The session; None when unknown, over, or of an identity type from before.

        Raises SessionError (session.store_unavailable).
        """
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            row = await self._client.get(self._prefix + id)
        try:
            return self._codec.decode(_bytes(row)) if row is not None else None
        except SessionError:
            return None

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
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            for key in keys_of_record(record):
                place = self._prefix + digest(key)
                await self._keep_latest(keys=[place], args=[record.issued_at, record.expires_at])

    async def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        """Whether a record covers it; raises SessionError (session.revocation_unavailable)."""
        keys = [self._prefix + digest(key) for key in keys_of_session(session)[1:]]
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            moments = await self._client.mget(keys)
        return any(
            moment is not None and session.authenticated_at <= int(moment) for moment in moments
        )


class RedisRefreshLock:
    """One run per session over all processes that share this Redis.

    `ttl` seconds bound a run: a run that takes longer is stopped, so two never overlap, and when
    its process dies another takes over after that time. A refresh asks the provider up to four
    times, so it is more than four times `provider_timeout`. `wait` seconds bound the waiting.
    """

    def __init__(
        self,
        client: Redis,
        *,
        prefix: str = DEFAULT_PREFIX,
        ttl: float = 45.0,
        wait: float = 50.0,
    ) -> None:
        self._acquire = _binary(client).register_script(_ACQUIRE)
        self._release = client.register_script(_RELEASE)
        self._prefix, self._ttl, self._wait = prefix, ttl, wait
        self._flights: Flights[str, bytes] = Flights()

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        """The result of the one run; see `RefreshLock`."""
        return await self._flights.run(session_id, lambda: self._run(session_id, operation))

    async def _run(self, session_id: str, operation: Callable[[], Awaitable[bytes]]) -> bytes:
        lease = _Lease(self._prefix, session_id)
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            async with asyncio.timeout(self._wait):
                result = await self._waited_for(lease)
        if result is not None:
            return result
        return await self._run_as_owner(lease, operation)

    async def _waited_for(self, lease: _Lease) -> bytes | None:
        """None once this caller holds the lock; else the result of a run that has ended."""
        while True:
            lease.ends = asyncio.get_running_loop().time() + self._ttl
            answer = await self._acquire(keys=lease.keys, args=[lease.owner, int(self._ttl * 1000)])
            if isinstance(answer, bytes):
                return answer
            if answer == 1:
                return None
            await asyncio.sleep(_POLL_SECONDS)

    async def _run_as_owner(
        self, lease: _Lease, operation: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        result: tuple[bytes, ...] = ()
        try:
            result = (await _run_until(lease.ends, operation),)
        finally:
            await asyncio.shield(self._released(lease, *result))
        return result[0]

    async def _released(self, lease: _Lease, *result: bytes) -> None:
        """Gives the lock back with the result; a Redis that fails here cannot undo the run."""
        try:
            await self._release(keys=lease.keys, args=[lease.owner, REMEMBERED_SECONDS, *result])
        except RedisError as error:
            _log.warning("refresh lock not released, it ends by itself: %s", type(error).__name__)


class _Lease:
    """One caller's claim on the lock; `ends` in seconds of the event loop's clock."""

    def __init__(self, prefix: str, session_id: str) -> None:
        self.owner = secrets.token_hex(16)
        self.keys = [f"{prefix}lock:{session_id}", f"{prefix}result:{session_id}"]
        self.ends = 0.0


async def _run_until(moment: float, operation: Callable[[], Awaitable[bytes]]) -> bytes:
    limit = asyncio.timeout_at(moment)
    try:
        async with limit:
            return await operation()
    except TimeoutError:
        if not limit.expired():
            raise
        raise SessionError(
            Code.SESSION_LOCK_UNAVAILABLE, "the refresh outlived its lock and was stopped"
        ) from None


def _binary(client: Redis) -> Redis:
    if client.connection_pool.connection_kwargs.get("decode_responses"):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, "make the Redis client without decode_responses"
        )
    return client


def _bytes(answer: bytes | str) -> bytes:
    return answer if isinstance(answer, bytes) else answer.encode()
