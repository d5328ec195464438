"""Accept the provider's word that a session is over (Back-Channel Logout 1.0 2.5 to 2.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.events import EventName
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.logout_token import (
    ExpectedLogout,
    LogoutToken,
    accept_logout_token,
    logout_token_parameter,
)
from fastapi_oidc.session.endings import RevocationRecord, expiry_of_record
from fastapi_oidc.session.model import Identity


async def accept_back_channel_logout(
    party: RelyingParty[Identity], form: Mapping[str, Sequence[str]]
) -> None:
    """From now on every session that the logout token names is revoked; repeating it is harmless.

    Raises OIDCError for any token or store that keeps this from being true; all of them are to be
    answered 400.
    """
    require_endings(party)
    token = await _accepted(party, form)
    await party.keeper.revoke(_record(party, token))
    party.announce(EventName.BACK_CHANNEL_LOGOUT_ACCEPTED, sub=token.sub, sid=token.sid)


def require_endings(party: RelyingParty[Identity]) -> None:
    """Raises ConfigurationError (configuration.store_missing) when no logout could be kept."""
    if not party.keeper.keeps_endings:
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            'back-channel logout needs OIDC(..., back_channel_logout_store="memory") or a store',
        )


async def _accepted(
    party: RelyingParty[Identity], form: Mapping[str, Sequence[str]]
) -> LogoutToken:
    verified = await party.provider.verify(logout_token_parameter(form), sender="anybody")
    policy = party.policy
    expected = ExpectedLogout(
        policy.issuer,
        policy.client_id,
        policy.trusted_audiences,
        policy.tenants,
        accepts_without_exp=policy.logout_token_without_exp,
    )
    return accept_logout_token(
        verified.header_typ, verified.claims, expected, party.clock.instant()
    )


def _record(party: RelyingParty[Identity], token: LogoutToken) -> RevocationRecord:
    """Kept for longer than a session that it covers can live."""
    now = party.clock.now()
    return RevocationRecord(
        issuer=token.iss,
        client_id=party.policy.client_id,
        sid=token.sid,
        sub=token.sub,
        jti=token.jti,
        issued_at=token.iat,
        expires_at=expiry_of_record(now, party.policy.session_lifetime),
    )
