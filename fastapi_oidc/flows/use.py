"""When a session was last used, for the idle timeout."""

from __future__ import annotations

from typing import Final

from fastapi_oidc.flows.relying_party import Policy, RelyingParty
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, OIDCSession

WRITES_PER_IDLE_TIME: Final = 10
"""How often the time of the last request is written at the most, within one `idle_timeout`."""


def idle_end_of(session: OIDCSession[Identity], policy: Policy) -> int | None:
    """The second in which the session is over for idleness; None when there is no such limit."""
    if policy.idle_timeout is None:
        return None
    return (session.last_seen_at or session.created_at) + policy.idle_timeout


async def used(
    party: RelyingParty[Identity], kept: Kept[Identity], *, active: bool
) -> Kept[Identity]:
    """The session, last seen now when that is worth a write."""
    if not active or not _is_write_due(kept.session, party.policy, now=party.clock.now()):
        return kept
    touched = await party.keeper.touch(kept, party.clock.now())
    party.register.keep(touched)
    if party.shared is not None:
        await party.shared.leave_use(touched)
    return touched


def _is_write_due(session: OIDCSession[Identity], policy: Policy, *, now: int) -> bool:
    if policy.idle_timeout is None:
        return False
    since = now - (session.last_seen_at or session.created_at)
    return since >= policy.idle_timeout // WRITES_PER_IDLE_TIME
