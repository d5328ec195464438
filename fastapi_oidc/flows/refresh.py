"""From a refreshed token answer to the session's successor (OpenID Connect Core 12, RFC 6749 6).

The refresh token is used up by then. So everything here can be done again from the same answer, and
nothing here but the provider's or the application's word ends the session.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, ProtocolViolation, SessionError
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence, approved, identified, renewed
from fastapi_oidc.flows.shared import KeptAnswer
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
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, OIDCSession


async def successor(
    party: RelyingParty[Identity], kept: Kept[Identity], answer: KeptAnswer
) -> Kept[Identity]:
    """What `kept` becomes by `answer`; nothing is kept yet.

    Raises ProtocolViolation for an ID token or UserInfo of somebody else, SessionError when the
    application ends the session or no cookie can hold it, ProviderError when nothing was decided.
    """
    id_token = _accepted(party, kept.session, answer)
    user_info = await _user_info(party, kept.session, answer.response)
    session_state = answer.response.session_state
    evidence = Evidence(answer.response, id_token, user_info, session_state, answer.received_at)
    return await fitting(party, kept, renewed(party, kept.session, evidence), evidence)


async def fitting(
    party: RelyingParty[Identity],
    kept: Kept[Identity],
    session: OIDCSession[Identity],
    evidence: Evidence,
) -> Kept[Identity]:
    """The successor `session` of `kept` as the application wants it, if a cookie can hold it.

    Else with the identity, claims and ID token that `kept` has, and the new tokens; so too when the
    identity is of another type than the settings say. Raises CookieTooLarge when that does not fit
    either.
    """
    resolved = await identified(party, session, evidence)
    whole = Kept(await approved(party, resolved, kept.session), kept.reference)
    error = _fault(party, whole)
    if error is None:
        return whole
    party.announcer(refused(EventName.SESSION_IDENTITY_KEPT, error, party.clock.now()))
    before = kept.session
    tokens = session.tokens.model_copy(update={"id_token": before.tokens.id_token})
    small = resolved.model_copy(
        update={"identity": before.identity, "claims": before.claims, "tokens": tokens}
    )
    smaller = Kept(await approved(party, small, before), kept.reference)
    if error := _fault(party, smaller):
        raise error
    return smaller


def _fault(party: RelyingParty[Identity], kept: Kept[Identity]) -> OIDCError | None:
    """Why the session cannot be kept: its identity is of another type, or no cookie can hold it."""
    try:
        party.codec.encode(kept.session)
        party.keeper.cookies(kept, party.clock.now())
    except ConfigurationError as error:
        return error
    except SessionError as error:
        if error.code is not Code.SESSION_COOKIE_TOO_LARGE:
            raise
        return error
    return None


def _accepted(
    party: RelyingParty[Identity], session: OIDCSession[Identity], answer: KeptAnswer
) -> IdToken | None:
    """The new ID token, whose signature is good; a refresh may leave it out (Core 12.2)."""
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
    """UserInfo with the new access token; without it when the endpoint fails.

    Only somebody else's UserInfo is worth the session.
    """
    if not party.policy.fetch_userinfo:
        return None
    try:
        return await party.provider.userinfo(answer.access_token, sub=session.sub)
    except ProtocolViolation:
        raise
    except OIDCError as error:
        party.announcer(refused(EventName.SESSION_IDENTITY_KEPT, error, party.clock.now()))
        return None
