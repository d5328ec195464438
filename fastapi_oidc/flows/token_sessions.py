"""Makes sessions from token responses, at logins and refreshes (Core 12, RFC 6749 6).

The refresh token is used up by then. So the same token response can be processed repeatedly, and
only the provider or the application can end the session here.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, SessionError
from fastapi_oidc.events import EventName, refusal
from fastapi_oidc.flows.local_sessions import TokenAnswer
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.id_token import (
    NO_NONCE,
    EarlierIdToken,
    Expected,
    IdToken,
    accept_refreshed_id_token,
)
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.tenants import tenant_of
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import Identity, OIDCSession, Tokens

_log = logging.getLogger("fastapi_oidc.session")


@dataclass(frozen=True, slots=True)
class TokenBundle:
    """The validated tokens and claims of an end user. A refresh may have no ID token.

    `received_at` is the arrival of the tokens, in seconds since the epoch. `key` is the key to
    which they are bound, None for the session's key.
    """

    response: TokenResponse = field(repr=False)
    id_token: IdToken | None
    user_info: Mapping[str, JSON] | None
    session_state: str | None
    received_at: int
    key: DPoPKey | None = None


def new_session(
    party: RelyingParty[Identity], bundle: TokenBundle, id_token: IdToken, identity: Identity
) -> OIDCSession[Identity]:
    """The session of a new login, with its absolute end."""
    now = party.clock.now()
    return OIDCSession(
        id=secrets.token_urlsafe(16),
        issuer=id_token.iss,
        client_id=party.policy.client_id,
        sub=id_token.sub,
        identity=identity,
        claims=dict(id_token.claims),
        tokens=_tokens(party, bundle, None),
        sid=id_token.sid,
        session_state=bundle.session_state,
        auth_time=id_token.auth_time,
        acr=id_token.acr,
        nonce=id_token.nonce,
        audiences=id_token.aud,
        azp=id_token.azp,
        created_at=now,
        # A time of the provider's clock, because it is compared with the provider's revocations.
        authenticated_at=id_token.iat,
        expires_at=now + party.policy.session_lifetime,
    )


def with_new_tokens(
    party: RelyingParty[Identity], session: OIDCSession[Identity], bundle: TokenBundle
) -> OIDCSession[Identity]:
    """`session` with new tokens; its user and its end stay the same."""
    changes: dict[str, object] = {
        "tokens": _tokens(party, bundle, session.tokens),
        "session_state": bundle.session_state or session.session_state,
        "generation": session.generation + 1,
        "refreshed_at": party.clock.now(),
    }
    if bundle.id_token is not None:
        changes["claims"] = dict(bundle.id_token.claims)
        changes["sid"] = bundle.id_token.sid or session.sid
    return session.model_copy(update=changes)


def with_new_login(session: OIDCSession[Identity], id_token: IdToken) -> OIDCSession[Identity]:
    """`session` with the claims of a new login's ID token.

    A refreshed ID token is compared with the ID token of the login that issued the refresh token
    (OpenID Connect Core 12.2).
    """
    return session.model_copy(
        update={
            "auth_time": id_token.auth_time,
            "acr": id_token.acr,
            "nonce": id_token.nonce,
            "audiences": id_token.aud,
            "azp": id_token.azp,
        }
    )


async def _with_identity(
    party: RelyingParty[Identity], session: OIDCSession[Identity], bundle: TokenBundle
) -> OIDCSession[Identity]:
    """`session` with a newly resolved identity.

    The old refresh token is used up, so a failing callback must not lose the new one: the error is
    logged, and the session continues with its former identity. A SessionError ends the session.
    """
    try:
        resolving = party.application.identity_of(
            session.claims, bundle.user_info, bundle.response.access_token
        )
        identity = await party.within_time_limit(resolving)
    except Exception as error:
        _raise_if_meant(error)
        _log.exception("resolve_identity failed in a refresh of session %s", session.id)
        return session
    return session.model_copy(update={"identity": identity})


async def _approved(
    party: RelyingParty[Identity], session: OIDCSession[Identity], before: OIDCSession[Identity]
) -> OIDCSession[Identity]:
    """The refreshed `session` of `before`, as `before_session_persist` returns it.

    If the callback fails, `session` without the tokens that it removed from `before`.
    """
    try:
        return await party.within_time_limit(party.application.approved(session, "refresh"))
    except Exception as error:
        _raise_if_meant(error)
        _log.exception("before_session_persist failed in a refresh of session %s", session.id)
        absent = [name for name in ("access_token", "id_token") if not getattr(before.tokens, name)]
        tokens = session.tokens.model_copy(update=dict.fromkeys(absent, ""))
        return session.model_copy(update={"tokens": tokens})


def _raise_if_meant(error: Exception) -> None:
    """Raise a callback's SessionError, which ends the session, unless it is about an outage."""
    if isinstance(error, SessionError) and not error.is_outage:
        raise error


def _tokens(party: RelyingParty[Identity], bundle: TokenBundle, previous: Tokens | None) -> Tokens:
    """The new tokens; members that the response omits stay the same (RFC 6749 5.1 and 6)."""
    response = bundle.response
    refresh_token = response.refresh_token or (previous.refresh_token if previous else None)
    # Some providers send 0 for a token that does not expire.
    lifetime = response.expires_in or None
    if lifetime is None and refresh_token is not None:
        # RFC 6749 5.1 only recommends expires_in; without an end no session would be refreshed.
        lifetime = party.policy.default_access_token_lifetime
    dpop_key = bundle.key.to_text() if bundle.key else previous.dpop_key if previous else None
    if response.token_type == "Bearer":  # noqa: S105 (a type)
        dpop_key = None  # a silent login after `dpop` was turned off
    return Tokens(
        id_token=response.id_token or (previous.id_token if previous else ""),
        access_token=response.access_token,
        refresh_token=refresh_token,
        token_type=response.token_type,
        dpop_key=dpop_key,
        expires_at=None if lifetime is None else bundle.received_at + lifetime,
        scope=_scope(party, response, previous),
    )


def _scope(
    party: RelyingParty[Identity], response: TokenResponse, previous: Tokens | None
) -> tuple[str, ...]:
    if response.scope is not None:
        return response.scope
    return previous.scope if previous else party.policy.scope


async def apply_refresh(
    party: RelyingParty[Identity], stored: StoredSession[Identity], answer: TokenAnswer
) -> StoredSession[Identity]:
    """The next session after `stored`, with the tokens of `answer`. It is not stored yet.

    Raises ProtocolViolation for an ID token or UserInfo of another user, SessionError when the
    application ends the session or it is too large for a cookie, ProviderError when the provider
    was unavailable.
    """
    id_token = _accepted(party, stored.session, answer)
    user_info = await _user_info(party, stored.session, answer.response)
    session_state = answer.response.session_state
    bundle = TokenBundle(answer.response, id_token, user_info, session_state, answer.received_at)
    session = with_new_tokens(party, stored.session, bundle)
    return await apply_callbacks(party, stored, session, bundle)


def with_new_refresh_token(
    party: RelyingParty[Identity], stored: StoredSession[Identity], answer: TokenAnswer
) -> StoredSession[Identity]:
    """The session with a new refresh token, after the old one got a token for another API.

    The session keeps its access token. Raises CookieTooLarge when it does not fit into a cookie.
    """
    tokens, refresh_token = stored.session.tokens, answer.response.refresh_token
    if refresh_token is not None:
        tokens = tokens.model_copy(update={"refresh_token": refresh_token})
    changes = {"tokens": tokens, "generation": stored.session.generation + 1}
    made = StoredSession(stored.session.model_copy(update=changes), stored.reference)
    if error := _fault(party, made):
        raise error
    return made


async def apply_callbacks(
    party: RelyingParty[Identity],
    stored: StoredSession[Identity],
    session: OIDCSession[Identity],
    bundle: TokenBundle,
) -> StoredSession[Identity]:
    """The refreshed `session` of `stored`, after the application's callbacks.

    If it does not fit into a cookie, or its identity has another type than configured, the result
    has the new tokens with the identity, claims and ID token of `stored`. Raises CookieTooLarge
    when that does not fit either.
    """
    resolved = await _with_identity(party, session, bundle)
    whole = StoredSession(await _approved(party, resolved, stored.session), stored.reference)
    error = _fault(party, whole)
    if error is None:
        return whole
    party.announcer(refusal(EventName.SESSION_IDENTITY_NOT_UPDATED, error, party.clock.now()))
    before = stored.session
    tokens = session.tokens.model_copy(update={"id_token": before.tokens.id_token})
    small = resolved.model_copy(
        update={"identity": before.identity, "claims": before.claims, "tokens": tokens}
    )
    smaller = StoredSession(await _approved(party, small, before), stored.reference)
    if error := _fault(party, smaller):
        raise error
    return smaller


def _fault(party: RelyingParty[Identity], stored: StoredSession[Identity]) -> OIDCError | None:
    """Why the session cannot be stored: the type of its identity, or its size."""
    try:
        if stored.reference is not None:
            party.codec.encode(stored.session)
        party.backend.cookies(stored, party.clock.now())
    except ConfigurationError as error:
        return error
    except SessionError as error:
        if error.code is not Code.SESSION_COOKIE_TOO_LARGE:
            raise
        return error
    return None


def _accepted(
    party: RelyingParty[Identity], session: OIDCSession[Identity], answer: TokenAnswer
) -> IdToken | None:
    """The new, validated ID token; a refresh may have none (Core 12.2)."""
    verified = answer.verified
    if verified is None:
        return None
    expected = Expected(
        issuer=party.policy.issuer,
        client_id=party.policy.client_id,
        algorithm=verified.algorithm,
        nonce=NO_NONCE,
        access_token=answer.response.access_token,
        trusted_audiences=party.policy.trusted_audiences,
        tenants=party.policy.tenants,
    )
    original = EarlierIdToken(
        iss=session.issuer,
        sub=session.sub,
        aud=session.audiences,
        azp=session.azp,
        auth_time=session.auth_time,
        nonce=session.nonce,
        tenant=tenant_of(session.claims) if party.policy.tenants else None,
    )
    at = party.clock.instant()
    received = Instant(min(answer.received_at, at.now), at.drift)
    return accept_refreshed_id_token(verified.claims, original, expected, at, received=received)


async def _user_info(
    party: RelyingParty[Identity], session: OIDCSession[Identity], answer: TokenResponse
) -> Mapping[str, JSON] | None:
    """The UserInfo claims, requested with the new access token; None if unavailable.

    Only UserInfo of another user ends the session (OpenID Connect Core 5.3.2).
    """
    if not party.policy.fetch_userinfo:
        return None
    try:
        key = session.tokens.proof_key()
        return await party.provider.userinfo(answer.access_token, sub=session.sub, key=key)
    except OIDCError as error:
        if error.code is Code.USERINFO_SUBJECT:
            raise
        party.announcer(refusal(EventName.SESSION_IDENTITY_NOT_UPDATED, error, party.clock.now()))
        return None
