"""End sessions: a browser's, one by its id, or all of a user. Revoke their tokens (RFC 7009)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.endings import Ending
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.sessions import Over
from fastapi_oidc.protocol.downstream import DownstreamAPI, IssuedToken
from fastapi_oidc.session import revocations, rows
from fastapi_oidc.session.model import AnySession, EndReason
from fastapi_oidc.session.store import Cell

TOKEN_REVOCATION_SECONDS: Final = 2.0
"""Seconds that a sign-out waits for the provider to revoke a token, after the session's end."""

_AT: Final = "@"


async def end(party: RelyingParty, session: AnySession, reason: EndReason) -> None:
    """End the session: immediately in this process, and elsewhere once the end is stored."""
    await party.sessions.end(Ending(session.id, reason, session.last_end))


async def end_current(party: RelyingParty, cookies: Mapping[str, str]) -> AnySession | None:
    """End the session of these cookies and return its newest state; None if its user did before.

    A copy from before a step-up ends nothing.

    A session that has ended otherwise is returned too: the provider may not know of that end. The
    cookie is enough to end the session while the store is down; the tokens that only the store has
    are not known then.
    """
    copy = party.sessions.copy_in(cookies)
    if copy is None:
        return None
    session = copy.session
    try:
        found = await party.sessions.judge(copy)
        if found is None or (isinstance(found, Over) and found.is_refused):
            return None
        is_signed_out = isinstance(found, Over) and found.reason == "signed_out"
        session = None if is_signed_out else found.session
    except SessionError:
        pass  # `end` announces that the store is down
    # Also if it is over: perhaps only in this process yet.
    row = await party.sessions.end(Ending(copy.id, "signed_out", copy.expires_at))
    return party.sessions.newest(session, row)


async def revoke(
    party: RelyingParty,
    *,
    sub: str | None = None,
    sid: str | None = None,
    session_id: str | None = None,
    issuer: str | None = None,
    reason: EndReason = "revoked",
) -> None:
    """End all sessions of this user, of this `sid` or with this id, in all processes.

    `issuer` is that of the ID token, where there are several. Later logins are not affected. Raises
    ValueError unless exactly one of the three is set, ConfigurationError
    (configuration.store_missing) without a store, SessionError when it is down.
    """
    if len([*filter(None, (sub, sid, session_id))]) != 1:
        raise ValueError("pass exactly one of sub, sid and session_id, and no empty text")
    if session_id:
        party.sessions.endings.require()
        lifetime = max(each.settings.session_lifetime for each in party.together)
        ends = party.clock.now() + max(lifetime, revocations.MINIMUM_LIFETIME)
        key = rows.row_key(session_id)
        await party.sessions.cells.move(key, lambda row, _: rows.end(row, reason, expires_at=ends))
        return
    if sub is not None and _AT in sub and party.sessions.in_store:
        with suppress(SessionError):
            await sessions_of(party, sub, issuer)  # for its advice
    for each, iss in party.issuers(issuer):
        key = key_of(each, iss, sub=sub, sid=sid or None)
        await revoke_key(each, key, revocations.by_application(reason))


async def revoke_key(
    party: RelyingParty, key: str, revocation: revocations.Revocation, *, of: str = revocations.ANY
) -> None:
    """End the sessions with this key of which `of` names some. Raises like `revoke`."""
    party.sessions.endings.require()
    expires_at = party.clock.now() + max(
        party.settings.session_lifetime, revocations.MINIMUM_LIFETIME
    )
    await party.sessions.cells.change(
        key, lambda value: Cell(revocations.added(value, of, revocation), expires_at)
    )


def key_of(
    party: RelyingParty, issuer: str, *, sub: str | None = None, sid: str | None = None
) -> str:
    """The key of this user's or `sid`'s sessions at one registration."""
    client_id = party.settings.client_id
    if sid is not None:
        return revocations.sid_key(issuer, client_id, sid)
    return revocations.user_key(issuer, client_id, sub or "")


async def sessions_of(
    party: RelyingParty, sub: str, issuer: str | None = None
) -> Sequence[AnySession]:
    """The sessions of a user that have not ended, the newest login first.

    Raises ConfigurationError (configuration.store_missing) without a session store, SessionError
    when it is down.
    """
    now = party.clock.now()
    active = [
        session
        for each, iss in party.issuers(issuer)
        for session in await party.sessions.sessions_of(key_of(each, iss, sub=sub))
        if now < each.end_of(session)
    ]
    if not active and _AT in sub:
        party.announcer.advise(
            "sub",
            "sessions were looked for, and there is none. If that was an e-mail address and not "
            "session.sub, that of the ID token, whatever `sub` the identity has: pass session.sub",
        )
    return sorted(active, key=lambda session: -session.created_at)


def end_reason(code: Code) -> EndReason:
    """The reason of a session's end by an error with `code`.

    A callback of the application ends a session with a SessionError.
    """
    if code in (Code.SESSION_EXPIRED, Code.SESSION_COOKIE_TOO_LARGE):
        return "expired"
    if code is Code.SESSION_SIGNED_OUT:
        return "signed_out"
    return "revoked" if code.startswith("session.") else "ended_by_provider"


async def revoke_token(
    party: RelyingParty, session: AnySession, token: str | None, kind: str
) -> bool:
    """Whether the provider has revoked the session's `token` (RFC 7009 2).

    A refusal is announced. A provider without an endpoint for it is none.
    """
    if token is None:
        return False
    try:
        await party.of(session).provider.revoke(token, kind)
    except OIDCError as error:
        if error.code is not Code.PROVIDER_ENDPOINT_MISSING:
            announce_failure(party, session, error)
        return False
    return True


async def revoke_tokens(party: RelyingParty, session: AnySession) -> bool:
    """Whether the provider has revoked the refresh token; also revokes tokens for other APIs."""
    revoked, _ = await asyncio.gather(
        revoke_token(party, session, session.tokens.refresh_token, "refresh_token"),
        _revoke_api_tokens(party, session),
    )
    return revoked


async def discard(party: RelyingParty, session: AnySession, refresh_token: str | None) -> None:
    """Best effort: revoke a refresh token of the session that will not be used."""
    if party.serving(session) is None:  # another provider must not get it
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(TOKEN_REVOCATION_SECONDS):
            await revoke_token(party, session, refresh_token, "refresh_token")


def may_share_grant(one: AnySession, other: AnySession) -> bool:
    """Whether revoking the tokens of `one` may end those of `other`.

    Providers that revoke a refresh token may end all tokens of the same user's session (RFC 7009
    2.1), which only its `sid` names.
    """
    if (one.issuer, one.client_id, one.sub) != (other.issuer, other.client_id, other.sub):
        return False
    return one.sid is None or other.sid is None or one.sid == other.sid


async def _revoke_api_tokens(party: RelyingParty, session: AnySession) -> None:
    """Revoke the tokens that are stored. A request under way finds the end and revokes its own."""
    with suppress(SessionError):
        keys = [token_key(session.id, api) for api in party.downstream_apis]
        found = await asyncio.gather(*map(party.sessions.cells.see, keys))
        contents = [seen.row.content for seen, _ in found if seen.row.content]
        tokens = [IssuedToken.decode(content).value for content in contents]
        await asyncio.gather(*(revoke_token(party, session, it, "access_token") for it in tokens))


def announce_failure(party: RelyingParty, session: AnySession | None, error: Exception) -> None:
    """Announce that the provider was not informed of the session's end."""
    known = error if isinstance(error, OIDCError) else None
    id = None if session is None else session.id
    party.announcer.announce(EventName.LOGOUT_REVOCATION_FAILED, known, session_id=id)


def token_key(session_id: str, api: DownstreamAPI, actor: str = "") -> str:
    """The key of the row with a session's token for another API, used by `actor`."""
    return f"token:{session_id}/{api.key(api.grant, *filter(None, [actor]))}"
