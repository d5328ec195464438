"""Sign out here and at the provider (RP-Initiated, Back-Channel, Front-Channel Logout 1.0)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from pydantic.dataclasses import dataclass

from fastapi_oidc.errors import Code, OIDCError, ProviderError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows import revocation
from fastapi_oidc.flows.relying_party import OPTIONS, Redirection, RelyingParty
from fastapi_oidc.protocol import id_token
from fastapi_oidc.protocol.urls import same_origin_path
from fastapi_oidc.session import revocations
from fastapi_oidc.session.model import AnySession

_log = logging.getLogger("fastapi_oidc.logout")
_STATE: Final = "state"
"""Under this name the `state` of a logout is sealed."""


@dataclass(frozen=True, slots=True, config=OPTIONS)
class LogoutOptions:
    """`local` does not end the provider's session; `return_to` is a path of this application.

    Raises ValueError, which names each option that is unknown or of a wrong type.
    """

    local: bool = False
    return_to: str | None = None


async def begin_logout(
    party: RelyingParty,
    options: LogoutOptions,
    *,
    logged_out_url: str | None,
    cookies: Mapping[str, str],
) -> Redirection:
    """End the session, and redirect the browser to the provider or to a local page.

    The user is signed out here even if the provider or the session store fails. Without a session
    the browser is not sent to the provider, unless `logout_without_session` is set. The provider
    redirects back only to a `post_logout_redirect_uri`, by default `logged_out_url`.
    """
    session = await _end_session(party, cookies)
    if session is not None:
        party = party.of(session)
    default, origin = party.settings.default_return_path, party.settings.base_url
    return_to = same_origin_path(options.return_to, default=default, origin=origin)
    if session is None and (party.is_one_of_several or not party.settings.logout_without_session):
        return Redirection(return_to)
    try:
        async with asyncio.timeout(revocation.TOKEN_REVOCATION_SECONDS):
            if not options.local:
                there = await _at_provider(party, session, return_to, logged_out_url)
                return Redirection(there or return_to)
            if session is not None and party.settings.revoke_on_local_logout:
                await revocation.revoke_tokens(party, session)
            return Redirection(return_to)
    except (OIDCError, TimeoutError) as error:
        revocation.announce_failure(party, session, error)
    except Exception:
        _log.exception("sign-out continues without the provider")
    return Redirection(return_to, provider_unreachable=not options.local)


def complete_logout(party: RelyingParty, parameters: Mapping[str, Sequence[str]]) -> Redirection:
    """The redirect after the return from the provider (RP-Initiated Logout 1.0 3).

    A wrong `state` is announced and leads to the default path; the session has ended already.
    """
    name, return_to = EventName.LOGOUT_RETURN_REFUSED, party.settings.default_return_path
    with suppress(SessionError, ValueError):  # of another secret; none, or several
        (state,) = parameters.get("state", ())
        path = party.logouts.open(state, name=_STATE).decode()
        name, return_to = EventName.LOGOUT_RETURNED, same_origin_path(path, default=return_to)
    party.sessions.announcer.announce(name)
    return Redirection(return_to)


async def _end_session(party: RelyingParty, cookies: Mapping[str, str]) -> AnySession | None:
    """End the browser's session and return it. The sign-out succeeds even if the store is down."""
    session = await revocation.end_current(party, cookies)
    if session is None:
        return None
    serving = party.serving(session)
    announcer = (serving or party).announcer
    announcer.announce(EventName.LOGOUT_STARTED, sub=session.sub, session_id=session.id)
    # Tokens of another provider, from before the settings changed, must not be sent to this one.
    return None if serving is None else session


async def _at_provider(
    party: RelyingParty, session: AnySession | None, return_to: str, logged_out_url: str | None
) -> str | None:
    """Where the provider signs out, None if nowhere; raises if it is unreachable."""
    metadata = await party.provider.metadata()
    revoked = session is not None and await revocation.revoke_tokens(party, session)
    if metadata.end_session_endpoint is None:
        return None
    if session is not None and not revoked and not await party.provider.is_reachable():
        # The browser would only show an error.
        raise ProviderError(Code.PROVIDER_UNREACHABLE, "the provider does not respond")
    chosen = party.settings.post_logout_redirect_uri
    post_logout_redirect_uri = {"route": logged_out_url, "none": None}.get(chosen, chosen)
    # Sealed, so that it returns as it was sent, and only a path from here is followed.
    state = party.logouts.seal(return_to.encode(), name=_STATE)
    return id_token.end_session_url(
        metadata.end_session_endpoint,
        client_id=party.settings.client_id,
        id_token_hint=session.tokens.id_token or None if session else None,
        post_logout_redirect_uri=post_logout_redirect_uri,
        state=state if post_logout_redirect_uri else None,
    )


async def accept_back_channel_logout(
    party: RelyingParty, form: Mapping[str, Sequence[str]]
) -> None:
    """Revoke every session that the logout token names. The request may be repeated.

    Raises OIDCError (a 400 response) for an invalid token and while the store fails.
    """
    party.sessions.endings.require()
    verified = await party.provider.verify(id_token.logout_token_parameter(form), sender="anybody")
    typ, claims, now = verified.header_typ, verified.claims, party.clock.instant()
    token = id_token.accept_logout_token(typ, claims, party.expected, now)
    await _revoke(party, token)
    name = EventName.BACK_CHANNEL_LOGOUT_ACCEPTED
    party.announcer.announce(name, sub=token.sub, sid=token.sid)


async def accept_front_channel_logout(
    party: RelyingParty, parameters: Mapping[str, Sequence[str]]
) -> None:
    """Revoke the sessions with the `sid` in a front-channel logout request.

    The sender of the request is not authenticated (Front-Channel Logout 1.0 5). Raises OIDCError
    for a request without `iss` and `sid`, for another issuer, and while the store fails.
    """
    issuer, sid = id_token.front_channel_session(parameters, party.issuer)
    key = revocation.key_of(party, issuer, sid=sid)
    await revocation.revoke_key(party, key, revocations.by_application("ended_by_provider"))
    party.announcer.announce(EventName.FRONT_CHANNEL_LOGOUT_ACCEPTED, sid=sid)


async def _revoke(party: RelyingParty, token: id_token.LogoutToken) -> None:
    """Revoke what the token names (Back-Channel Logout 1.0, 2.4).

    A token with `sid` and `sub` also ends the sessions of that `sub` that have no `sid`.
    """
    by_provider = revocations.Revocation(token.iat, reason="ended_by_provider")
    of_sub = revocations.ANY
    if token.sid is not None:
        key = revocation.key_of(party, token.iss, sid=token.sid)
        await revocation.revoke_key(party, key, by_provider, of=token.sub or revocations.ANY)
        of_sub = revocations.NO_SID
    if token.sub is not None:
        key = revocation.key_of(party, token.iss, sub=token.sub)
        await revocation.revoke_key(party, key, by_provider, of=of_sub)
