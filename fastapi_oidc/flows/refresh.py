"""Refresh the tokens of one session (OpenID Connect Core 12, RFC 6749 6)."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi_oidc.errors import OIDCError, ProtocolViolation
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence, approved, renewed
from fastapi_oidc.protocol.id_token import (
    NO_NONCE,
    EarlierIdToken,
    Expected,
    IdToken,
    accept_refreshed_id_token,
)
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import Identity, OIDCSession


async def refreshed(
    party: RelyingParty[Identity], session: OIDCSession[Identity]
) -> OIDCSession[Identity]:
    """The successor of `session`, which has a refresh token; nothing is kept yet.

    Raises TokenRefused when the provider says no, ProtocolViolation for an ID token or UserInfo of
    somebody else, ProviderError when nothing was decided.
    """
    answer = await party.provider.refresh(session.tokens.refresh_token or "")
    id_token = await _accepted(party, session, answer)
    user_info = await _user_info(party, session, answer)
    evidence = Evidence(answer, id_token, user_info, answer.session_state)
    return await approved(party, renewed(party, session, evidence), evidence)


async def _accepted(
    party: RelyingParty[Identity], session: OIDCSession[Identity], answer: TokenResponse
) -> IdToken | None:
    """The new ID token, which a refresh may leave out (Core 12.2)."""
    if answer.id_token is None:
        return None
    verified = await party.provider.verify(answer.id_token)
    expected = Expected(
        issuer=party.policy.issuer,
        client_id=party.policy.client_id,
        algorithm=verified.algorithm,
        nonce=NO_NONCE,
        access_token=answer.access_token,
        trusted_audiences=party.policy.trusted_audiences,
    )
    original = EarlierIdToken(
        iss=session.issuer,
        sub=session.sub,
        aud=session.audiences,
        azp=session.azp,
        auth_time=session.auth_time,
        nonce=session.nonce,
    )
    return accept_refreshed_id_token(verified.claims, original, expected, party.clock.instant())


async def _user_info(
    party: RelyingParty[Identity], session: OIDCSession[Identity], answer: TokenResponse
) -> Mapping[str, JSON] | None:
    """UserInfo with the new access token; without it when the endpoint fails.

    The refresh token is used up by now: only somebody else's UserInfo is worth the session.
    """
    if not party.policy.fetch_userinfo:
        return None
    try:
        return await party.provider.userinfo(answer.access_token, sub=session.sub)
    except ProtocolViolation:
        raise
    except OIDCError as error:
        event = refused(EventName.SESSION_IDENTITY_KEPT, error, party.clock.now())
        party.announcer(event)
        return None
