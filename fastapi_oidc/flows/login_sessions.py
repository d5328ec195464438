"""From a code to the session after a login: a new one, or the next generation of the browser's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.endings import Ending
from fastapi_oidc.flows.refresh import replace_session
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import current, live_after, unless_ended
from fastapi_oidc.flows.revocation import discard_tokens, may_share_grant
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live, Over, Prepared
from fastapi_oidc.flows.token_sessions import (
    TokenBundle,
    apply_callbacks,
    applying,
    expected_of,
    new_session,
    with_new_login,
    with_new_tokens,
)
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.id_token import IdToken, accept_id_token
from fastapi_oidc.protocol.token import TokenResponse, authorization_code_grant
from fastapi_oidc.session.model import AnySession, LoginTransaction, SteppedUp
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
    """This process has not sent the code: no connection, or another process may have sent it."""

    def __init__(self, error: OIDCError) -> None:
        super().__init__()
        self.error = error


async def sign_in(party: RelyingParty, login: Login, before_sending: Callable[[], None]) -> Live:
    """The session of this login: a new one, after which the browser's former one ends.

    After a silent login or a step-up it is the next generation of the browser's session.
    `before_sending` may raise SessionError right before the code is sent. The code is used up
    unless CodeNotSent is raised. Raises SessionError when the session that a silent login confirms
    has ended in the meantime, ProtocolViolation (authorization.other_user) for another user.
    """
    transaction, key = login.transaction, await _proof_key(party, login)
    tokens = await _exchange_code(party, login, key, before_sending)
    received_at = party.clock.now()
    # The provider's keys are fetched now: its response may name a new key.
    id_token = await _accept_id_token(party, tokens, transaction)
    bundle = TokenBundle(tokens, id_token, None, received_at, key)
    try:
        # Before everything that a revocation may be about, such as the user's roles.
        stamps = await party.sessions.stamps(new_session(party, bundle, id_token, NOBODY))
        if party.settings.fetch_userinfo:
            access_token, sub = tokens.access_token, id_token.sub
            user_info = await party.provider.userinfo(access_token, sub=sub, key=key)
            bundle = replace(bundle, user_info=user_info)
        if transaction.silent:
            return await _confirm(party, login, bundle, id_token)
        before = await _before(party, login)
        continued = await _continued(party, before, id_token) if transaction.steps_up else None
        if continued is not None:
            return _announce(party, await _stepped_up(party, continued, login, bundle, id_token))
        live = await _begin(party, login, bundle, id_token, stamps)
    except Exception:
        await discard(party, login, bundle, id_token)
        raise
    await _end_previous(party, login, before, live.session)
    return _announce(party, live)


async def _exchange_code(
    party: RelyingParty, login: Login, key: DPoPKey | None, before_sending: Callable[[], None]
) -> TokenResponse:
    transaction = login.transaction
    grant = authorization_code_grant(
        login.code, transaction.redirect_uri, transaction.code_verifier
    )
    try:
        tokens = await party.provider.obtain(grant, key=key, before_sending=before_sending)
    except SessionError as error:  # of `before_sending`
        raise CodeNotSent(error) from error
    except ProviderError as error:
        if error.is_unsent:
            raise CodeNotSent(error) from error
        raise
    # Without a scope it is the requested one (RFC 6749 5.1).
    scope = transaction.scope if tokens.scope is None else tokens.scope
    state = login.code.session_state or tokens.session_state
    return replace(tokens, scope=scope, session_state=state)


async def _proof_key(party: RelyingParty, login: Login) -> DPoPKey | None:
    """The key for the new tokens; a silent login uses the session's key.

    The session's refresh token may stay the same, and it is bound to that key (RFC 9449 5).
    """
    if not party.settings.dpop:
        return None
    live = await current(party, login.cookies) if login.transaction.silent else None
    return DPoPKey.new() if live is None else live.session.tokens.proof_key()


async def _accept_id_token(
    party: RelyingParty, tokens: TokenResponse, transaction: LoginTransaction
) -> IdToken:
    verified = await party.provider.verify(tokens.required_id_token())
    expected = replace(
        expected_of(party, tokens, verified, transaction.nonce),
        max_age=transaction.max_age,
        acr_values=transaction.acr_values,
    )
    return accept_id_token(verified.claims, expected, party.clock.instant())


def copy_before(party: RelyingParty, login: Login) -> Copy | None:
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
    party: RelyingParty, login: Login, bundle: TokenBundle, id_token: IdToken
) -> None:
    """Revoke the tokens of a refused login, unless the browser's session may share them.

    Or the session may that has replaced it meanwhile.
    """
    refused = new_session(party, bundle, id_token, NOBODY)
    if (copy := copy_before(party, login)) is not None:
        try:
            # Also for a copy from before another step-up: its session continues.
            before = await party.sessions.judge(copy._replace(epoch=ANY_EPOCH))
        except SessionError:
            return  # the session may continue
        if isinstance(before, Over) and before.keeps_grant:
            return
        if isinstance(before, Live) and may_share_grant(refused, before.session):
            return
    await discard_tokens(party, refused)


_OFFLINE: Final = (
    "the provider issued no refresh token. It offers offline_access, which scope does not have. "
    "Sessions continue, but their access tokens soon expire. To call APIs as the user, add "
    "offline_access"
)


async def _begin(
    party: RelyingParty,
    login: Login,
    bundle: TokenBundle,
    id_token: IdToken,
    stamps: tuple[str, ...],
) -> Live:
    """A new session. `stamps` are those of earlier revocations of the user."""
    response, name = bundle.response, party.settings.name
    resolving = party.application.identity_of(
        id_token.claims, bundle.user_info, response.access_token, name
    )
    session = new_session(party, bundle, id_token, await party.within_time_limit(resolving))
    session = session.model_copy(
        update={"prior_revocations": stamps, "stepped_up": _requirements(party, login)}
    )
    with applying(session):
        approving = party.application.approve(session, "login")
        session = await party.within_time_limit(approving)
    prepared = party.sessions.prepare(session)
    await _advise_on_tokens(party, response)
    return await party.sessions.begin(prepared)


def _announce(party: RelyingParty, live: Live) -> Live:
    """`live`, of which the listener knows that its user has signed in."""
    session = live.session
    party.announcer.announce(
        EventName.LOGIN_SUCCEEDED, sub=session.sub, session_id=session.id, sid=session.sid
    )
    return live


async def _before(party: RelyingParty, login: Login) -> Found:
    """The browser's session when the login began, or the one that it has now."""
    copy = copy_before(party, login)
    return None if copy is None else await party.sessions.judge(copy)


async def _continued(party: RelyingParty, before: Found, id_token: IdToken) -> Live | None:
    """The session of the same user that a step-up continues.

    Its copy may be from before the step-up of another tab: its user has authenticated again.
    """
    if before is None:
        return None
    copy = before.copy._replace(epoch=ANY_EPOCH)
    if isinstance(before, Over) and before.is_refused:
        before = await party.sessions.judge(copy)
    live = unless_ended(party, before)
    return replace(live, copy=copy) if live and _is_of(party, live, id_token) else None


def _is_of(party: RelyingParty, live: Live, id_token: IdToken) -> bool:
    """Whether the session is of the same user: `sub` alone is not unique (Core 5.7)."""
    session = live.session
    is_registered_here = session.client_id == party.settings.client_id
    return is_registered_here and (session.issuer, session.sub) == (id_token.iss, id_token.sub)


def _requirements(party: RelyingParty, login: Login) -> SteppedUp | None:
    """What this login required, None without requirements of its own."""
    transaction = login.transaction
    if not transaction.steps_up:
        return None
    now = party.clock.now()
    return SteppedUp(at=now, max_age=transaction.max_age, acr_values=transaction.acr_values)


async def _stepped_up(
    party: RelyingParty,
    before: Live,
    login: Login,
    bundle: TokenBundle,
    id_token: IdToken,
) -> Live:
    """The session's next generation after its user has signed in again.

    Earlier copies of its cookie are refused from now on: somebody else may have one.
    """

    async def make(live: Live) -> Prepared:
        session = with_new_login(with_new_tokens(party, live.session, bundle), id_token)
        # The refresh token of the login before would bring ID tokens of that login (Core 12.2).
        tokens = session.tokens.model_copy(update={"refresh_token": bundle.response.refresh_token})
        changes = {
            "authenticated_at": id_token.iat,
            "tokens": tokens,
            "stepped_up": _requirements(party, login),
            "epoch": session.generation,
        }
        session = session.model_copy(update=changes)
        return await apply_callbacks(party, live, session, bundle)

    live = live_after(party, before, await replace_session(party, before, make))
    return replace(live, copy=live.copy._replace(epoch=live.seen.row.epoch))


async def _advise_on_tokens(party: RelyingParty, tokens: TokenResponse) -> None:
    """Advise the scope offline_access if a login got no refresh token (Core 11)."""
    if tokens.refresh_token is not None or "offline_access" in party.settings.scope:
        return
    with suppress(OIDCError):
        if (await party.provider.metadata()).offers_offline_access:
            party.announcer.advise("scope", _OFFLINE)


async def _end_previous(
    party: RelyingParty,
    login: Login,
    before: Found,
    session: AnySession,
) -> None:
    """End the session that the browser had, and the one that it had when the login began.

    A copy from before a step-up ends nothing: somebody else may have it.
    """
    if isinstance(before, Over) and before.is_refused:
        return
    previous, last = login.transaction.previous, None
    if isinstance(before, Live):
        last = before.session
        shares = may_share_grant(last, session)
        row = await party.sessions.end(Ending(last.id, "signed_out", last.last_end, shares))
        if not shares:
            await discard_tokens(party, party.sessions.newest(last, row) or last)
    if previous is not None and (last is None or previous.id != last.id):
        await party.sessions.end(Ending(previous.id, "signed_out", previous.expires_at))


async def _confirm(
    party: RelyingParty, login: Login, bundle: TokenBundle, id_token: IdToken
) -> Live:
    """The session with new tokens, if the end user is the same (Session Management 3.1)."""
    live = await current(party, login.cookies)
    if live is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session ended while it was being confirmed")
    if not _is_of(party, live, id_token):
        raise ProtocolViolation(Code.AUTHORIZATION_OTHER_USER)

    async def make(now: Live) -> Prepared:
        session = with_new_tokens(party, now.session, bundle)
        # Later ID tokens are compared with the ID token that came with the refresh token.
        if bundle.response.refresh_token is not None:
            session = with_new_login(session, id_token)
        return await apply_callbacks(party, now, session, bundle)

    return live_after(party, live, await replace_session(party, live, make))
