"""How tokens are requested that may be requested again: of exchanges, and of the application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fastapi_oidc.errors import Code, ProtocolViolation, misconfigured
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol import downstream
from fastapi_oidc.protocol.downstream import ActorToken, DownstreamAPI, IssuedToken, Target
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import AnySession


async def token_of_callback(
    party: RelyingParty, session: AnySession, api: DownstreamAPI | None
) -> IssuedToken:
    """A token for a callback that decides about this session, which is not stored yet."""
    if api is None:
        return own_token(session)
    if api.grant == "refresh_token":
        raise misconfigured("a callback that decides about a session cannot use its refresh token")
    return await exchange_of_session(party, api, session)


async def exchange_of_session(
    party: RelyingParty,
    api: DownstreamAPI,
    session: AnySession,
    actor: Callable[[], Awaitable[ActorToken]] | None = None,
) -> IssuedToken:
    """A token in exchange for the session's; `actor` returns the token of who acts for its user."""
    own, acting = session.tokens, None if actor is None else await actor()
    form = downstream.exchange_grant(api, own.access_token, acting)
    return await _obtain(party, api, form, own.proof_key())


def require_exchange(api: DownstreamAPI | None) -> None:
    """Raise ConfigurationError unless there is an API whose grant takes an actor (RFC 8693 2.1)."""
    if api is None or api.grant != "token_exchange":
        raise misconfigured("only a DownstreamAPI with grant='token_exchange' takes an actor")


async def exchange_of_caller(
    party: RelyingParty, api: DownstreamAPI, value: str, ends: int
) -> IssuedToken:
    """A token in exchange for a caller's; raises ProtocolViolation after its end."""
    if party.clock.now() >= ends:
        explanation = "the caller's token has expired, and only its client can get another"
        raise ProtocolViolation(Code.ACCESS_TOKEN_EXPIRED, explanation)
    return await _obtain(party, api, downstream.exchange_grant(api, value), _new_key(party))


async def obtain_for_application(party: RelyingParty, target: Target) -> IssuedToken:
    """A token of the application itself (RFC 6749 4.4)."""
    form = downstream.client_credentials_grant(target)
    return await _obtain(party, target, form, _new_key(party))


async def _obtain(
    party: RelyingParty, target: Target, form: Mapping[str, str], key: DPoPKey | None
) -> IssuedToken:
    response = await party.provider.obtain(form, key=key)
    downstream.require_access_token(response)
    return issued(party, target, response, party.clock.now(), key)


def _new_key(party: RelyingParty) -> DPoPKey | None:
    """A key for a token that belongs to no session, with the setting `dpop`."""
    return DPoPKey.new() if party.settings.dpop else None


def issued(
    party: RelyingParty,
    target: Target,
    response: TokenResponse,
    received_at: int,
    key: DPoPKey | None,
) -> IssuedToken:
    """The token in the response; what that leaves out is assumed (RFC 6749 5.1)."""
    lifetime = response.expires_in or party.settings.default_access_token_lifetime
    return IssuedToken(
        value=response.access_token,
        expires_at=received_at + lifetime,
        scope=tuple(target.scope) if response.scope is None else response.scope,
        token_type=response.token_type,
        issued_at=received_at,
        dpop_key=None if key is None else key.to_text(),
    )


def own_token(session: AnySession) -> IssuedToken:
    """The session's own access token; raises ConfigurationError if the session has none."""
    tokens = session.tokens
    if not tokens.access_token:
        raise misconfigured("before_session_persist removes the access token from sessions")
    return IssuedToken(
        value=tokens.access_token,
        expires_at=tokens.expires_at,
        scope=tokens.scope,
        token_type=tokens.token_type,
        issued_at=session.refreshed_at or session.created_at,
        dpop_key=tokens.dpop_key,
    )
