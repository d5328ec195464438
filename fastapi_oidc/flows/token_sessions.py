"""Makes sessions from token responses, at logins and refreshes (Core 12, RFC 6749 6).

The refresh token is used up by then. So the same token response can be processed repeatedly, and
only the provider or the application can end the session here.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import Reason, RelyingParty
from fastapi_oidc.flows.sessions import Live, Prepared
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.id_token import Authentication, IdToken, accept_refreshed_id_token
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.provider.document import VerifiedToken
from fastapi_oidc.session import rows, session_cookie
from fastapi_oidc.session.model import ID_BYTES, AnySession, OIDCSession, Tokens

UNVERIFIED_SECONDS: Final = 3600
"""Seconds for which a response is stored whose ID token no key of the provider verifies."""

MOST_FORMER_SIDS: Final = 8
"""Maximum number of former `sid` values of a session."""

_log = logging.getLogger("fastapi_oidc.session")
_applying: ContextVar[AnySession | None] = ContextVar("fastapi_oidc_applying", default=None)
"""The session about which the callback under way decides; it is not stored yet."""


def being_applied(session_id: str) -> AnySession | None:
    """The session with this id, if the running task is a callback that decides about it."""
    session = _applying.get()
    return session if session is not None and session.id == session_id else None


@dataclass(frozen=True, slots=True)
class TokenBundle:
    """The validated tokens and claims of an end user. A refresh may have no ID token.

    `received_at` is the arrival of the tokens, in seconds since the epoch. `key` is the key to
    which they are bound, None for the session's key. Unless `is_own`, the access token is for
    another API, and the session keeps its own.
    """

    response: TokenResponse = field(repr=False)
    id_token: IdToken | None
    user_info: Mapping[str, JSON] | None
    received_at: int
    key: DPoPKey | None = None
    is_own: bool = True


@dataclass(frozen=True, slots=True)
class LoginTokens(TokenBundle):
    """The validated tokens of a login, which always has an ID token."""

    id_token: IdToken


def new_session(party: RelyingParty, bundle: LoginTokens) -> AnySession:
    """The session of a new login, with its absolute end, before it gets its identity."""
    now, id_token = party.clock.now(), bundle.id_token
    session: AnySession = OIDCSession(
        id=secrets.token_urlsafe(ID_BYTES),
        issuer=id_token.iss,
        client_id=party.settings.client_id,
        sub=id_token.sub,
        identity=None,
        claims=dict(id_token.claims),
        tokens=_tokens(party, bundle, Tokens(id_token="", access_token="")),
        sid=id_token.sid,
        session_state=bundle.response.session_state,
        created_at=now,
        # A time of the provider's clock, because it is compared with the provider's revocations.
        authenticated_at=id_token.iat,
        expires_at=now + party.settings.session_lifetime,
    )
    return with_new_login(session, id_token)


def with_new_tokens(party: RelyingParty, session: AnySession, bundle: TokenBundle) -> AnySession:
    """`session` with new tokens; its user and its end stay the same."""
    changes: dict[str, object] = {
        "tokens": _tokens(party, bundle, session.tokens),
        "session_state": bundle.response.session_state or session.session_state,
        "generation": session.generation + 1,
    }
    if bundle.is_own:
        changes["refreshed_at"] = party.clock.now()
    if bundle.id_token is not None:
        changes |= {"claims": dict(bundle.id_token.claims), **_sids(session, bundle.id_token.sid)}
    return session.model_copy(update=changes)


def _sids(session: AnySession, sid: str | None) -> Mapping[str, object]:
    """The new `sid`; a logout token for a former one still ends the session."""
    if sid is None or sid == session.sid:
        return {}
    former = tuple(each for each in (session.sid, *session.former_sids) if each not in (None, sid))
    return {"sid": sid, "former_sids": former[:MOST_FORMER_SIDS]}


def with_new_login(session: AnySession, id_token: IdToken) -> AnySession:
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


def _tokens(party: RelyingParty, bundle: TokenBundle, previous: Tokens) -> Tokens:
    """The new tokens; members that the response omits stay the same (RFC 6749 5.1 and 6)."""
    response = bundle.response
    kept = {
        "refresh_token": response.refresh_token or previous.refresh_token,
        "id_token": response.id_token or previous.id_token,
    }
    if not bundle.is_own:
        return previous.model_copy(update=kept)
    # Some providers send 0 for a token that does not expire.
    lifetime = response.expires_in or None
    if lifetime is None and kept["refresh_token"] is not None:
        # RFC 6749 5.1 only recommends expires_in; without an end no session would be refreshed.
        lifetime = party.settings.default_access_token_lifetime
    dpop_key = bundle.key.to_text() if bundle.key else previous.dpop_key
    if response.token_type == "Bearer":  # noqa: S105 (a type)
        dpop_key = None  # a silent login after `dpop` was turned off
    return previous.model_copy(
        update={
            **kept,
            "access_token": response.access_token,
            "token_type": response.token_type,
            "dpop_key": dpop_key,
            "expires_at": None if lifetime is None else bundle.received_at + lifetime,
            "scope": previous.scope if response.scope is None else response.scope,
        }
    )


async def fold(party: RelyingParty, live: Live, answer: rows.TokenAnswer) -> Prepared:
    """The next session after `live`, with the tokens of `answer`. It is not stored yet.

    Raises ProtocolViolation for an ID token or UserInfo of another user, SessionError when the
    application ends the session or it is too large for a cookie, ProviderError when the provider
    was unavailable or its response cannot be read.
    """
    session, response = live.session, TokenResponse.read(answer.body)
    response.require_binding(is_bound=session.tokens.dpop_key is not None)
    id_token = await _accept_id_token(party, session, answer, response)
    is_own = not answer.api
    user_info = await _user_info(party, session, response) if is_own else None
    bundle = TokenBundle(response, id_token, user_info, answer.received_at, is_own=is_own)
    made = with_new_tokens(party, session, bundle)
    return await apply_callbacks(party, live, made, bundle)


async def with_callbacks(
    party: RelyingParty, session: AnySession, bundle: TokenBundle, reason: Reason
) -> Prepared:
    """`session` with its identity, as the application wants it stored.

    Raises what its callbacks raise, ConfigurationError for an identity of another type than
    configured, and session_cookie.CookieTooLarge.
    """
    application, token = party.application, _applying.set(session)
    try:
        async with asyncio.timeout(party.settings.callback_timeout):
            identity = await application.identity_of(
                session.claims, bundle.user_info, bundle.response.access_token, party.settings.name
            )
            session = session.model_copy(update={"identity": identity})
            session = await application.approve(session, reason)
        return party.sessions.prepare(session)
    finally:
        _applying.reset(token)


async def apply_callbacks(
    party: RelyingParty, live: Live, session: AnySession, bundle: TokenBundle
) -> Prepared:
    """The refreshed `session` of `live`, after the application's callbacks.

    The old refresh token is used up, so a callback that fails must not lose the new one. Then, and
    for a session that does not fit into its cookie, the result has the new tokens, with the
    identity, claims and ID token of `live`. A SessionError of a callback ends the session, unless
    it is about an outage. Raises CookieTooLarge when the new tokens do not fit either.
    """
    try:
        return await with_callbacks(party, session, bundle, "refresh")
    except Exception as error:
        is_too_large = isinstance(error, session_cookie.CookieTooLarge)
        if isinstance(error, SessionError) and not (error.is_outage or is_too_large):
            raise
        known = error if isinstance(error, OIDCError) else None
        if known is None:
            _log.exception("a callback failed in a refresh of session %s", session.id)
        name = EventName.SESSION_IDENTITY_NOT_UPDATED
        party.announcer.announce(name, known, session_id=session.id)
    return party.sessions.prepare(_as_before(session, live.session))


def _as_before(session: AnySession, before: AnySession) -> AnySession:
    """`session` with the identity and claims of `before`, and without an access token it lacks."""
    tokens = {"id_token": before.tokens.id_token}
    if not before.tokens.access_token:
        tokens["access_token"] = ""
    return session.model_copy(
        update={
            "identity": before.identity,
            "claims": before.claims,
            "tokens": session.tokens.model_copy(update=tokens),
        }
    )


async def _accept_id_token(
    party: RelyingParty, session: AnySession, answer: rows.TokenAnswer, response: TokenResponse
) -> IdToken | None:
    """The new, validated ID token; a refresh may have none (Core 12.2)."""
    if response.id_token is None:
        return None
    verified = await _verify(party, response.id_token, answer.received_at)
    algorithm, access_token = verified.algorithm, response.access_token
    expected = replace(party.expected, algorithm=algorithm, access_token=access_token)
    original = Authentication(
        iss=session.issuer,
        sub=session.sub,
        aud=session.audiences,
        azp=session.azp,
        auth_time=session.auth_time,
        nonce=session.nonce,
    )
    at = party.clock.instant()
    received = Instant(min(answer.received_at, at.now), at.drift)
    return accept_refreshed_id_token(verified.claims, original, expected, at, received=received)


async def _verify(party: RelyingParty, id_token: str, received_at: int) -> VerifiedToken:
    try:
        return await party.provider.verify(id_token)
    except ProviderError as error:
        age = party.clock.now() - received_at
        if error.code is Code.JWS_KEY_MISSING and age >= UNVERIFIED_SECONDS:
            explanation = "none of the provider's keys verifies the ID token"
            raise ProtocolViolation(Code.JWS_SIGNATURE, explanation) from error
        raise


async def _user_info(
    party: RelyingParty, session: AnySession, response: TokenResponse
) -> Mapping[str, JSON] | None:
    """The UserInfo claims, requested with the new access token; None if unavailable.

    Only UserInfo of another user ends the session (OpenID Connect Core 5.3.2).
    """
    if not party.settings.fetch_userinfo:
        return None
    try:
        key = session.tokens.proof_key()
        return await party.provider.userinfo(response.access_token, sub=session.sub, key=key)
    except OIDCError as error:
        if error.code is Code.USERINFO_SUBJECT:
            raise
        party.announcer.announce(EventName.SESSION_IDENTITY_NOT_UPDATED, error)
        return None
