"""Refresh records on Redis: one hash for each session, changed by one script at a time."""

from __future__ import annotations

from typing import Any, Final, Self

from fastapi_oidc.session.records import Advance, Phase, RefreshRecord, RefreshRecords, Take
from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX, Client, client_of
from fastapi_oidc.session.redis.connections import Connections
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.stores import DEFAULT_TIMEOUT

# `taken` and `advanced` of fastapi_oidc.session.records, by the clock of Redis. The fields are
# g(eneration), p(hase), o(wner), u(ntil, in milliseconds), d(ata), n(ewest session) and s(een).
_READ: Final = """
local fields = redis.call('HMGET', KEYS[1], 'g', 'p', 'o', 'u', 'd', 'n', 's')
local g, p, o = tonumber(fields[1] or '-1'), fields[2] or 'idle', fields[3] or ''
local u, d, n = tonumber(fields[4] or '0'), fields[5] or '', fields[6] or ''
local s = tonumber(fields[7] or '0')
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function keep(lifetime)
  redis.call('HSET', KEYS[1], 'g', g, 'p', p, 'o', o, 'u', string.format('%d', u),
    'd', d, 'n', n, 's', s)
  redis.call('EXPIRE', KEYS[1], math.max(tonumber(lifetime), redis.call('TTL', KEYS[1])))
end
"""
_TAKE: Final = Script(
    _READ
    + """
local generation, owner = tonumber(ARGV[1]), ARGV[2]
local hold, answered_hold = tonumber(ARGV[3]), tonumber(ARGV[4])
if p ~= 'ended' and g <= generation then
  if g < generation then g, p, d, n = generation, 'idle', '', '' end
  u = math.min(u, now + 2 * hold)
  if p == 'idle' or u <= now or o == owner then
    if p == 'answered' then u = now + answered_hold else p, u = 'sent', now + hold end
    o = owner
  end
  keep(ARGV[5])
  return {g, p, o, d, '', s}
end
return {g, p, o, d, n, s}
"""
)
_ADVANCE: Final = Script(
    _READ
    + """
local phase, owner, generation, to = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
s = math.max(s, tonumber(ARGV[8]))
if phase ~= '' then
  if owner ~= '' then
    local is_owned = o == owner and p ~= 'ended'
    if p == 'idle' then is_owned = is_owned and phase == 'idle' and to == g
    else is_owned = is_owned and g == generation end
    if not is_owned then return 0 end
  end
  if to > g then g, n = to, ARGV[6] end
  p, o, d, u = phase, owner, ARGV[5], now + tonumber(ARGV[7])
end
keep(ARGV[9])
return 1
"""
)


class RedisRefreshLock(RefreshRecords):
    """Refresh records that any number of processes share.

    A session has one key, which expires with the session. Every method is one command.
    """

    def __init__(
        self, client: Client, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self._connections, self._prefix = Connections(client, timeout), prefix

    @classmethod
    def from_url(
        cls, url: str, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT
    ) -> Self:
        """Records with a bounded pool of their own, for a URL as `RedisSessionStore` takes it."""
        return cls(client_of(url), prefix=prefix, timeout=timeout)

    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        """See `RefreshRecords.take`."""
        args: list[str | bytes | int] = [
            take.generation,
            take.owner,
            _milliseconds(take.hold),
            _milliseconds(take.answered_hold),
            lifetime,
        ]
        reply = await self._connections.run_script(_TAKE, [self._key(id)], args)
        return _record(*reply)

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        """See `RefreshRecords.advance`."""
        fence = [change.phase or "", change.owner, change.generation, change.to_generation]
        hold = _milliseconds(change.hold)
        args: list[str | bytes | int] = [
            *fence,
            change.data,
            change.session,
            hold,
            change.last_seen_at,
            lifetime,
        ]
        return bool(await self._connections.run_script(_ADVANCE, [self._key(id)], args))

    async def look(self, id: str) -> RefreshRecord:
        """See `RefreshRecords.look`."""
        fields = ("g", "p", "o", "d", "n", "s")
        values: list[Any] = await self._connections.run(
            lambda client: client.hmget(self._key(id), fields)
        )
        return RefreshRecord() if values[1] is None else _record(*values)

    async def aclose(self) -> None:
        """Close the pool that `from_url` made; a client of the application stays open."""
        await self._connections.aclose()

    def _key(self, id: str) -> str:
        return f"{self._prefix}refresh:{id}"


def _record(
    generation: Any, phase: bytes, owner: bytes, data: bytes, session: bytes, seen: Any
) -> RefreshRecord:
    return RefreshRecord(
        generation=int(generation),
        phase=Phase(phase.decode()),
        owner=owner.decode(),
        data=data,
        session=session,
        last_seen_at=int(seen),
    )


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
