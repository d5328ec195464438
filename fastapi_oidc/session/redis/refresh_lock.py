"""A refresh lock on Redis: one run of a name over all processes, and what they hand on."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final, Self

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.once import Flights, cancelled
from fastapi_oidc.session.abilities import Turn
from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX, Client, client_of
from fastapi_oidc.session.redis.connections import DEFAULT_TIMEOUT, Connections
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.stores import unavailable_as

REMEMBERED_SECONDS: Final = 60
_FIRST_POLL, _LONGEST_POLL = 0.05, 0.5
_POLLS_PER_WAIT: Final = 4
_EXTENSIONS_PER_LEASE: Final = 3

_log = logging.getLogger(__name__)

# A caller whose first answer was lost asks again, and has the lock or the name already.
_ACQUIRE: Final = Script("""
local result = redis.call('GET', KEYS[2])
if result then return result end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
return 0
""")
_LOOK: Final = Script("""
return redis.call('GET', KEYS[2]) or redis.call('EXISTS', KEYS[1])
""")
_CLAIM: Final = Script("""
local kept = redis.call('GET', KEYS[1])
if kept and kept ~= ARGV[1] then return kept end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return false
""")
_EXTEND: Final = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
""")
_RELEASE: Final = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
if ARGV[3] then redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[2]) end
""")


class RedisRefreshLock:
    """One run per session over all processes that share this Redis.

    `ttl` seconds is the lease: it begins with the run and is extended while the run goes on, so a
    run is never stopped; when its process dies, another takes over after that time. `wait` seconds
    bound the waiting for another process's run, which is no part of the lease.
    """

    def __init__(
        self,
        client: Client,
        *,
        prefix: str = DEFAULT_PREFIX,
        ttl: float = 20.0,
        wait: float = 50.0,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._connections = Connections(client, timeout)
        self._prefix, self._ttl, self._wait = prefix, ttl, wait
        self._milliseconds = str(int(ttl * 1000))
        self._flights: Flights[str, bytes] = Flights()

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        prefix: str = DEFAULT_PREFIX,
        ttl: float = 20.0,
        wait: float = 50.0,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Self:
        """A lock with a bounded pool of its own, for a URL as `RedisSessionStore` takes it."""
        return cls(client_of(url), prefix=prefix, ttl=ttl, wait=wait, timeout=timeout)

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        """The result of the one run, which belongs to no caller; see `RefreshLock`."""
        return await self.run_in_turn(session_id, operation, nullcontext)

    async def run_in_turn(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], turn: Turn, /
    ) -> bytes:
        """As `run_exclusive`; another process's run is awaited without a turn of this one."""
        return await self._flights.run(session_id, lambda: self._run(session_id, operation, turn))

    async def claim(self, name: str, data: bytes, seconds: int, /) -> bytes | None:
        """Keeps `data` under `name`, unless something is: then what is kept there.

        Raises SessionError (session.lock_unavailable).
        """
        keys = [self._kept_key(name)]
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            args: list[str | bytes] = [data, str(seconds)]
            kept: bytes | None = await self._connections.run_script(_CLAIM, keys, args)
        return kept

    async def keep(self, name: str, data: bytes, seconds: int, /) -> None:
        """Keeps `data` under `name`; raises SessionError (session.lock_unavailable)."""
        key = self._kept_key(name)
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            await self._connections.run(lambda client: client.set(key, data, ex=seconds))

    async def kept(self, name: str, /) -> bytes | None:
        """What is kept under `name`; raises SessionError (session.lock_unavailable)."""
        key = self._kept_key(name)
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            data: bytes | None = await self._connections.run(lambda client: client.get(key))
        return data

    async def forget(self, name: str, /) -> None:
        """Keeps it no longer; raises SessionError (session.lock_unavailable)."""
        key = self._kept_key(name)
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            await self._connections.run(lambda client: client.delete(key))

    async def aclose(self) -> None:
        """Closes the pool that `from_url` made; a client that was given is left alone."""
        await self._connections.aclose()

    async def _run(self, name: str, operation: Callable[[], Awaitable[bytes]], turn: Turn) -> bytes:
        # The keys of a script have one slot of a cluster: that of what stands in braces.
        tag = f"{{{name}}}" if self._connections.is_cluster else name
        lease = _Lease(self._prefix, tag)
        ends: float | None = None
        while True:
            # A lease begins with its run: nobody waits for a turn with the lock in hand.
            async with turn():
                if await self._acquired(lease):
                    return await self._held(lease, operation)
            ends = ends or asyncio.get_running_loop().time() + self._wait
            with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
                async with asyncio.timeout_at(ends):
                    result = await self._waited_for(lease)
            if result is not None:
                return result

    async def _acquired(self, lease: _Lease) -> bool:
        answer = await self._answer(_ACQUIRE, lease, [lease.owner, self._milliseconds])
        return bool(answer == 1)

    async def _held(self, lease: _Lease, operation: Callable[[], Awaitable[bytes]]) -> bytes:
        """The result of the run, with which the lock is given back."""
        results: list[bytes] = []
        try:
            async with self._extended(lease):
                results.append(await operation())
        finally:
            await self._released(lease, results)
        return results[0]

    async def _waited_for(self, lease: _Lease) -> bytes | None:
        """The result of a run that has ended; None when nobody holds the lock."""
        waited, pause = 0.0, _FIRST_POLL
        while True:
            answer = await self._connections.run_script(_LOOK, lease.keys, [])
            if isinstance(answer, bytes):
                return answer
            if answer == 0:
                return None
            await asyncio.sleep(pause)
            waited += pause
            pause = min(max(_FIRST_POLL, waited / _POLLS_PER_WAIT), _LONGEST_POLL)

    @asynccontextmanager
    async def _extended(self, lease: _Lease) -> AsyncIterator[None]:
        """The lease does not end within; its process may die."""
        extending = asyncio.create_task(self._keep_extending(lease))
        try:
            yield
        finally:
            await cancelled(extending)

    async def _keep_extending(self, lease: _Lease) -> None:
        args = [lease.owner, self._milliseconds]
        while True:
            await asyncio.sleep(self._ttl / _EXTENSIONS_PER_LEASE)
            try:
                is_ours = await self._answer(_EXTEND, lease, args)
            except SessionError as error:
                _log.warning("refresh lock not extended: %s", type(error.__cause__).__name__)
                continue
            if not is_ours:
                _log.warning("refresh lock lost while its refresh goes on")
                return

    async def _released(self, lease: _Lease, results: list[bytes]) -> None:
        """Gives the lock back with the result; a Redis that fails here cannot undo the run."""
        args: list[str | bytes] = [lease.owner, str(REMEMBERED_SECONDS), *results]
        try:
            await self._answer(_RELEASE, lease, args)
        except SessionError as error:
            raised = type(error.__cause__).__name__
            _log.warning("refresh lock not released, it ends by itself: %s", raised)

    async def _answer(self, script: Script, lease: _Lease, args: Sequence[str | bytes]) -> Any:
        """What `script` returns; raises SessionError (session.lock_unavailable) for any failure."""
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            return await self._connections.run_script(script, lease.keys, args)

    def _kept_key(self, name: str) -> str:
        return f"{self._prefix}kept:{name}"


class _Lease:
    """One caller's claim on the lock."""

    def __init__(self, prefix: str, name: str) -> None:
        self.owner = secrets.token_hex(16)
        self.keys = [f"{prefix}lock:{name}", f"{prefix}result:{name}"]
