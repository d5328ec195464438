"""Mistakes of the settings that show only while people use the application, logged once each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import Identity

_SEALED_OTHERWISE: Final = (
    "the session cookie {name} was not sealed with it, so that its user has to sign in again. Give "
    "every process and every deployment the same secret, and to rotate it keep the old one as the "
    "second. If another application on this host has cookies of the same names, give each a `name`"
)
_MEMORY: Final = (
    "a session is not in the memory of this process, so that its user has to sign in again. "
    "Memory is that of one process, until it restarts: with several workers set session_store to a "
    "RedisSessionStore, or leave it out and have sessions in cookies"
)
_OFFLINE: Final = (
    "the provider gave no refresh token, and offers offline_access, which is not asked for. "
    "Sessions go on, and their access tokens end after some minutes. To call APIs as the user, add "
    "offline_access"
)


def advise_on_lost_session(party: RelyingParty[Identity], cookies: Mapping[str, str]) -> None:
    """A session cookie led to no session."""
    name = party.names.session
    if not cookies.get(name):
        return
    if party.backend.fault(cookies) is Code.SESSION_SEAL_BROKEN:
        party.announcer.advise("cookie_secret", _SEALED_OTHERWISE.format(name=name))
    elif "session_store" in party.backend.in_memory and _should_be_here(party, cookies):
        party.announcer.advise("session_store", _MEMORY)


async def advise_on_tokens(party: RelyingParty[Identity], tokens: TokenResponse) -> None:
    """A login got these tokens (Core 11: offline_access asks for a refresh token)."""
    if tokens.refresh_token is not None or "offline_access" in party.policy.scope:
        return
    with suppress(OIDCError):
        if (await party.provider.metadata()).offers_offline_access:
            party.announcer.advise("scope", _OFFLINE)


def _should_be_here(party: RelyingParty[Identity], cookies: Mapping[str, str]) -> bool:
    """Whether the session is neither over nor known to have been here."""
    hint = party.backend.hint(cookies, party.policy.issuer, party.policy.client_id)
    if hint is None or hint.previous.expires_at <= party.clock.now():
        return False
    return party.sessions.get(hint.previous.id) is None
