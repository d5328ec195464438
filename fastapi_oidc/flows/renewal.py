"""From what the provider said to the session that is kept: at login and at every refresh."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fastapi_oidc.errors import SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.id_token import IdToken
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import Identity, OIDCSession, Tokens

_log = logging.getLogger("fastapi_oidc.session")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the provider says of the end user, rules applied; a refresh may lack an ID token.

    `received_at` is when the tokens came, in seconds since the epoch.
    """

    answer: TokenResponse = field(repr=False)
    id_token: IdToken | None
    user_info: Mapping[str, JSON] | None
    session_state: str | None
    received_at: int


def begun(
    party: RelyingParty[Identity], evidence: Evidence, id_token: IdToken, identity: Identity
) -> OIDCSession[Identity]:
    """The session of a new login; its absolute end is fixed here."""
    now = party.clock.now()
    return OIDCSession(
        id=secrets.token_urlsafe(16),
        issuer=id_token.iss,
        client_id=party.policy.client_id,
        sub=id_token.sub,
        identity=identity,
        claims=dict(id_token.claims),
        tokens=_tokens(party, evidence, None),
        sid=id_token.sid,
        session_state=evidence.session_state,
        auth_time=id_token.auth_time,
        nonce=id_token.nonce,
        audiences=id_token.aud,
        azp=id_token.azp,
        created_at=now,
        # The provider's clock, because revocations are compared with it.
        authenticated_at=id_token.iat,
        expires_at=now + party.policy.session_lifetime,
    )


def renewed(
    party: RelyingParty[Identity], session: OIDCSession[Identity], evidence: Evidence
) -> OIDCSession[Identity]:
    """`session` with new tokens; who it is and when it ends stay as they were."""
    changes: dict[str, object] = {
        "tokens": _tokens(party, evidence, session.tokens),
        "session_state": evidence.session_state or session.session_state,
        "generation": session.generation + 1,
        "refreshed_at": party.clock.now(),
    }
    if evidence.id_token is not None:
        changes["claims"] = dict(evidence.id_token.claims)
        changes["sid"] = evidence.id_token.sid or session.sid
    return session.model_copy(update=changes)


def reauthenticated(session: OIDCSession[Identity], id_token: IdToken) -> OIDCSession[Identity]:
    """`session` with the facts of an ID token that a login of its own brought.

    A refresh is compared with the ID token of the login that its refresh token comes from
    (OpenID Connect Core 12.2).
    """
    return session.model_copy(
        update={
            "auth_time": id_token.auth_time,
            "nonce": id_token.nonce,
            "audiences": id_token.aud,
            "azp": id_token.azp,
        }
    )


async def identified(
    party: RelyingParty[Identity], session: OIDCSession[Identity], evidence: Evidence
) -> OIDCSession[Identity]:
    """`session` with the identity resolved anew.

    The old refresh token is used up, so a callback that fails must not lose the new one: the error
    is logged, and the session goes on with the identity it has. A SessionError is meant: it ends
    the session.
    """
    try:
        resolving = party.application.identity_of(
            session.claims, evidence.user_info, evidence.answer.access_token
        )
        identity = await within_limit(party, resolving)
    except Exception as error:
        _require_unmeant(error)
        _log.exception("resolve_identity failed in a refresh of session %s", session.id)
        return session
    return session.model_copy(update={"identity": identity})


async def approved(
    party: RelyingParty[Identity], session: OIDCSession[Identity], before: OIDCSession[Identity]
) -> OIDCSession[Identity]:
    """`session`, the successor of `before`, as `before_session_persist` wants it kept.

    When that fails, without the tokens that it left out `before`.
    """
    try:
        return await within_limit(party, party.application.approved(session, "refresh"))
    except Exception as error:
        _require_unmeant(error)
        _log.exception("before_session_persist failed in a refresh of session %s", session.id)
        absent = [name for name in ("access_token", "id_token") if not getattr(before.tokens, name)]
        tokens = session.tokens.model_copy(update=dict.fromkeys(absent, ""))
        return session.model_copy(update={"tokens": tokens})


async def within_limit(party: RelyingParty[Identity], callback: Awaitable[Result]) -> Result:
    """What a callback of the application gives; raises TimeoutError after `callback_timeout`.

    A callback that waited for a task which somebody cancelled failed like any other.
    """
    try:
        async with asyncio.timeout(party.policy.callback_timeout):
            return await callback
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("a callback of the application was cancelled from within") from None


def _require_unmeant(error: Exception) -> None:
    """Let a SessionError through, unless a store was down and nothing was meant by it."""
    if isinstance(error, SessionError) and not error.is_outage:
        raise error


def _tokens(party: RelyingParty[Identity], evidence: Evidence, previous: Tokens | None) -> Tokens:
    """RFC 6749 5.1 and 6: what an answer leaves out stays as it was."""
    answer = evidence.answer
    refresh_token = answer.refresh_token or (previous.refresh_token if previous else None)
    # Some providers say 0 for a token that does not expire; one that is over at birth is no token.
    lifetime = answer.expires_in or None
    if lifetime is None and refresh_token is not None:
        # RFC 6749 5.1 only recommends it; without an end no session would ever be refreshed.
        lifetime = party.policy.default_access_token_lifetime
    return Tokens(
        id_token=answer.id_token or (previous.id_token if previous else ""),
        access_token=answer.access_token,
        refresh_token=refresh_token,
        expires_at=None if lifetime is None else evidence.received_at + lifetime,
        scope=_scope(party, answer, previous),
    )


def _scope(
    party: RelyingParty[Identity], answer: TokenResponse, previous: Tokens | None
) -> tuple[str, ...]:
    if answer.scope is not None:
        return answer.scope
    return previous.scope if previous else party.policy.scope
