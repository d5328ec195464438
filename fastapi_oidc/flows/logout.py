"""End a session here, and at the provider if it can be asked (RP-Initiated Logout 1.0)."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fastapi_oidc.errors import OIDCError
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.flows.outcomes import Redirection
from fastapi_oidc.flows.refresher import Refresher
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import end_previous, is_ours
from fastapi_oidc.protocol.end_session import EndSessionRequest
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.protocol.return_path import same_origin_path
from fastapi_oidc.session.logout_cookie import PendingLogout
from fastapi_oidc.session.model import Identity, OIDCSession

PATIENCE = 2.0
"""Seconds that a logout waits for the provider at the most; the local session is over before."""


@dataclass(frozen=True, slots=True)
class LogoutOptions:
    """`local` leaves the provider's session alone; `return_to` is a path of this application."""

    local: bool = False
    return_to: str | None = None


async def begin_logout(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    options: LogoutOptions,
    *,
    post_logout_redirect_uri: str,
    cookies: Mapping[str, str],
) -> Redirection:
    """No session here any more; the browser goes on to the provider or to a local page.

    Works without a session, and while the provider or the session store cannot be reached.
    """
    session = await _cleared(party, refresher, cookies)
    return_to = same_origin_path(options.return_to, default=party.policy.default_return_path)
    here = Redirection(return_to, party.keeper.clearing())
    if options.local:
        return here
    there = await _at_provider(party, session, return_to, post_logout_redirect_uri)
    return replace(there, changes=(*here.changes, *there.changes)) if there else here


def complete_logout(
    party: RelyingParty[Identity],
    parameters: Mapping[str, Sequence[str]],
    cookies: Mapping[str, str],
) -> Redirection:
    """Where the browser goes on after the provider sent it back (RP-Initiated Logout 1.0 3).

    Another `state` than the one sent is announced and leads to the default path; there is no
    session left to protect.
    """
    now = party.clock.now()
    pending = party.logouts.find(cookies, now=now)
    states = parameters.get("state", ())
    if pending is None or len(states) != 1 or not _equal(states[0], pending.state):
        party.announce(EventName.LOGOUT_RETURN_REFUSED)
        return Redirection(party.policy.default_return_path, (party.logouts.ended(),))
    party.announce(EventName.LOGOUT_RETURNED)
    default = party.policy.default_return_path
    return_to = same_origin_path(pending.return_to, default=default)
    return Redirection(return_to, (party.logouts.ended(),))


async def _cleared(
    party: RelyingParty[Identity], refresher: Refresher[Identity], cookies: Mapping[str, str]
) -> OIDCSession[Identity] | None:
    """The provider's session that was here; a store that is down keeps nobody signed in."""
    kept = await end_previous(party, refresher, cookies)
    if kept is None:
        return None
    session = kept.session
    party.announce(EventName.LOGOUT_STARTED, sub=session.sub, session_id=session.id)
    # Another provider's tokens, from before the settings changed, are none of this one's business.
    return session if is_ours(party, session) else None


async def _at_provider(
    party: RelyingParty[Identity],
    session: OIDCSession[Identity] | None,
    return_to: str,
    post_logout_redirect_uri: str,
) -> Redirection | None:
    """On to the provider, when it has a page to sign out and says so in time."""
    ends = asyncio.get_running_loop().time() + PATIENCE
    metadata = await _metadata(party, ends)
    if metadata is not None and session is not None:
        await _revoke_at_provider(party, metadata, session, ends)
    if metadata is None or metadata.end_session_endpoint is None:
        return None
    pending = PendingLogout(
        state=secrets.token_urlsafe(32), return_to=return_to, created_at=party.clock.now()
    )
    request = EndSessionRequest(
        client_id=party.policy.client_id,
        id_token_hint=session.tokens.id_token if session else None,
        post_logout_redirect_uri=post_logout_redirect_uri,
        state=pending.state,
    )
    return Redirection(request.url(metadata.end_session_endpoint), (party.logouts.begun(pending),))


async def _metadata(party: RelyingParty[Identity], ends: float) -> ProviderMetadata | None:
    """The provider's metadata, if it can be had soon."""
    try:
        async with asyncio.timeout_at(ends):
            metadata = await party.provider.metadata()
            # The last known metadata say nothing of whether the provider has a page to show.
            return metadata if await party.provider.is_reachable() else None
    except (OIDCError, TimeoutError):
        return None


async def _revoke_at_provider(
    party: RelyingParty[Identity],
    metadata: ProviderMetadata,
    session: OIDCSession[Identity],
    ends: float,
) -> None:
    """Best effort: the refresh token is of no more use to anybody (RFC 7009)."""
    refresh_token = session.tokens.refresh_token
    if refresh_token is None or metadata.revocation_endpoint is None:
        return
    try:
        async with asyncio.timeout_at(ends):
            await party.provider.revoke(refresh_token, "refresh_token")
    except TimeoutError:
        party.announce(EventName.LOGOUT_REVOCATION_FAILED, session_id=session.id)
    except OIDCError as error:
        now = party.clock.now()
        party.announcer(refused(EventName.LOGOUT_REVOCATION_FAILED, error, now))


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())
