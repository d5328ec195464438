"""Give tokens back to the provider that nobody is going to use any more (RFC 7009)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fastapi_oidc.errors import OIDCError
from fastapi_oidc.flows.events import Event, EventName, refused
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.session.model import Identity, OIDCSession

PATIENCE: Final = 2.0
"""Seconds that anybody waits for the provider to take them; the session is over before."""


async def revoked_at_provider(
    party: RelyingParty[Identity], session: OIDCSession[Identity]
) -> bool:
    """Whether the provider took the refresh token; False without one, or without an endpoint.

    A refusal is announced and False. Raises ProviderError while there is no metadata.
    """
    metadata = await party.provider.metadata()
    refresh_token = session.tokens.refresh_token
    if refresh_token is None or metadata.revocation_endpoint is None:
        return False
    try:
        await party.provider.revoke(refresh_token, "refresh_token")
    except OIDCError as error:
        announce_failure(party, session, error)
        return False
    return True


def announce_failure(
    party: RelyingParty[Identity], session: OIDCSession[Identity] | None, error: Exception
) -> None:
    """The provider was not told that the session is over."""
    event = Event(EventName.LOGOUT_REVOCATION_FAILED, party.clock.now())
    if isinstance(error, OIDCError):
        event = refused(event.name, error, event.at)
    party.announcer(replace(event, session_id=None if session is None else session.id))
