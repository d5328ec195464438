"""Exchange the code of a login for tokens, and validate them (OpenID Connect Core 3.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fastapi_oidc.errors import OIDCError, ProviderError, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import current
from fastapi_oidc.flows.revocation import discard_tokens, may_share_grant
from fastapi_oidc.flows.sessions import ANY_EPOCH, Live
from fastapi_oidc.flows.token_sessions import TokenBundle, new_session
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.id_token import Expected, IdToken, accept_id_token
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import Identity, LoginTransaction
from fastapi_oidc.session.session_cookie import Copy

NOBODY: Final[Any] = None
"""The identity of a session that is never stored."""


@dataclass(frozen=True, slots=True)
class Login:
    """A callback with its pending login."""

    code: AuthorizationCode = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)
    transaction: LoginTransaction


class CodeNotSent(Exception):
    """The provider has not received the code: no connection, or another process sends it."""

    def __init__(self, error: OIDCError) -> None:
        super().__init__()
        self.error = error


async def exchange_code(
    party: RelyingParty[Identity], login: Login, before_sending: Callable[[], None] | None = None
) -> tuple[TokenBundle, IdToken, tuple[str, ...]]:
    """Exchange the code and validate the result. The code is used up unless CodeNotSent is raised.

    The provider's keys are fetched afterwards: its response may name a new key. The third part of
    the result are the stamps of earlier revocations of the user. They are read before everything
    that a revocation may be about, such as the user's roles.
    """
    transaction, key = login.transaction, await _proof_key(party, login)
    try:
        tokens = await party.provider.exchange_code(
            login.code,
            transaction.redirect_uri,
            transaction.code_verifier,
            key=key,
            before_sending=before_sending,
        )
    except SessionError as error:  # of `before_sending`
        raise CodeNotSent(error) from error
    except ProviderError as error:
        if error.is_unsent:
            raise CodeNotSent(error) from error
        raise
    if tokens.scope is None:  # the requested scope (RFC 6749 5.1)
        tokens = replace(tokens, scope=scope_of(party, transaction))
    received_at = party.clock.now()
    id_token = await _accept_id_token(party, tokens, transaction)
    bundle = TokenBundle(tokens, id_token, None, None, received_at, key)
    user_info = None
    try:
        stamps = await party.sessions.stamps(new_session(party, bundle, id_token, NOBODY))
        if party.settings.fetch_userinfo:
            access_token, sub = tokens.access_token, id_token.sub
            user_info = await party.provider.userinfo(access_token, sub=sub, key=key)
    except Exception:
        await discard(party, login, bundle, id_token)
        raise
    session_state = login.code.session_state or tokens.session_state
    bundle = replace(bundle, user_info=user_info, session_state=session_state)
    return bundle, id_token, stamps


async def _proof_key(party: RelyingParty[Identity], login: Login) -> DPoPKey | None:
    """The key for the new tokens; a silent login uses the session's key.

    The session's refresh token may stay the same, and it is bound to that key (RFC 9449 5).
    """
    if not party.settings.dpop:
        return None
    live = await current(party, login.cookies) if login.transaction.silent else None
    return DPoPKey.new() if live is None else live.session.tokens.proof_key()


async def _accept_id_token(
    party: RelyingParty[Identity], tokens: TokenResponse, transaction: LoginTransaction
) -> IdToken:
    verified = await party.provider.verify(tokens.required_id_token())
    expected = Expected(
        issuer=party.settings.issuer,
        client_id=party.settings.client_id,
        trusted_audiences=frozenset(party.settings.trusted_id_token_audiences),
        nonce=transaction.nonce,
        access_token=tokens.access_token,
        algorithm=verified.algorithm,
        max_age=transaction.max_age,
        acr_values=transaction.acr_values,
        tenants=party.settings.tenants(),
    )
    return accept_id_token(verified.claims, expected, party.clock.instant())


def scope_of(party: RelyingParty[Identity], transaction: LoginTransaction) -> tuple[str, ...]:
    """The scope that the login requested."""
    return tuple(party.settings.scope) if transaction.scope is None else transaction.scope


def copy_before(party: RelyingParty[Identity], login: Login) -> Copy[Identity] | None:
    """The browser's copy of its session: the request's, or the one from when the login began.

    A callback that is a cross-site form post has no session cookie.
    """
    previous = login.transaction.previous
    copy = party.sessions.copy_in(login.cookies)
    if copy is None and previous is not None:
        secret = bytes.fromhex(previous.secret)
        copy = Copy(previous.id, (), previous.epoch, previous.expires_at, secret=secret)
    return copy


async def discard(
    party: RelyingParty[Identity], login: Login, bundle: TokenBundle, id_token: IdToken
) -> None:
    """Revoke the tokens of a refused login, unless the browser's session may share them."""
    refused = new_session(party, bundle, id_token, NOBODY)
    if (copy := copy_before(party, login)) is not None:
        try:
            # Also for a copy from before another step-up: its session continues.
            before = await party.sessions.judge(copy._replace(epoch=ANY_EPOCH))
        except SessionError:
            return  # the session may continue
        if isinstance(before, Live) and may_share_grant(refused, before.session):
            return
    await discard_tokens(party, refused)
