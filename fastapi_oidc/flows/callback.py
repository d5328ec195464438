"""Complete a login: from the provider's response to a stored session (OpenID Connect Core 3.1)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Generic, TypeAlias

from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.login_sessions import CodeNotSent, Login
from fastapi_oidc.flows.relying_party import Changes, RelyingParty
from fastapi_oidc.flows.resume import current, unless_ended
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live
from fastapi_oidc.protocol.authorization import AuthorizationCode, Parameters, response_state
from fastapi_oidc.protocol.urls import same_origin_path
from fastapi_oidc.session import cells, rows
from fastapi_oidc.session.cookies import PENDING_SECONDS
from fastapi_oidc.session.model import Identity, LoginTransaction, OIDCSession
from fastapi_oidc.settings import OIDCSettings

LOGIN_SECONDS: Final = 60
"""Seconds for which a repeated callback gets the session of its login."""


@dataclass(frozen=True, slots=True)
class SignedIn(Generic[Identity]):
    """The browser is signed in; `return_to` is a path of this application.

    `replayed`: the callback of an earlier login was repeated (a reload, the back button). `silent`:
    a check in a hidden iframe confirmed the existing session. `live` is the session with its row,
    None if the request already had it.
    """

    session: OIDCSession[Identity]
    return_to: str
    silent: bool = False
    replayed: bool = False
    changes: Changes = field(default=(), repr=False)
    live: Live | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class LoginRefused:
    """A login's callback was refused."""

    error: OIDCError
    silent: bool = False
    changes: Changes = field(default=(), repr=False)


LoginOutcome: TypeAlias = SignedIn[Any] | LoginRefused


def longest_login(settings: OIDCSettings) -> float:
    """Seconds for which a callback waits for its code exchange; nothing takes longer."""
    return 2 * settings.provider_timeout + settings.callback_timeout


async def complete_login(
    party: RelyingParty,
    exchanges: SingleFlight[str, LoginOutcome],
    parameters: Parameters,
    cookies: Mapping[str, str],
) -> LoginOutcome:
    """A session for a valid response, a refusal for any other. Both use up the transaction.

    While the provider or the store is unavailable nothing is used up, so a reload tries again. An
    exception of the application is raised here; the code is used up then.
    """
    used_up: Changes = ()
    silent = False
    try:
        state = response_state(parameters)
        used_up = party.transactions.ended(state, cookies)
        transaction = party.transactions.find(state, cookies, now=party.clock.now())
        here = party.settings.issuer, party.settings.client_id
        # No other provider gets the code of a login.
        if transaction is None or (transaction.issuer, transaction.client_id) != here:
            return await _without_transaction(party, state, cookies, used_up)
        silent = transaction.silent
        login = Login(party, await _code(party, parameters, transaction), cookies, transaction)
        return replace(await _exchanged_once(login, exchanges), changes=used_up)
    except OIDCError as error:
        party.announcer.announce(EventName.LOGIN_REFUSED, error)
        is_temporary = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return LoginRefused(error, silent, () if is_temporary else used_up)


async def _exchanged_once(login: Login, exchanges: SingleFlight[str, LoginOutcome]) -> LoginOutcome:
    """The outcome of the code's exchange, or of the same callback's that is under way.

    A code must not be used more than once, and a provider that receives it again may revoke the
    tokens (RFC 6749 4.1.2). A reload of a slow callback sends it again. So an exchange does not
    belong to a request and is never cancelled. After it the login's row has the result.
    """
    party, this = login.party, object()
    seconds = longest_login(party.settings)
    task, first = exchanges.begin(_name(login.transaction), this, lambda: _redeem(login))
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        explanation = f"the sign-in took longer than {seconds:g} seconds"
        raise ProviderError(Code.PROVIDER_TIMEOUT, explanation)
    outcome = task.result()
    if isinstance(outcome, LoginRefused):
        return outcome
    return await _judged(party, replace(outcome, replayed=outcome.replayed or first is not this))


async def _judged(party: RelyingParty, outcome: SignedIn[Any]) -> SignedIn[Any]:
    """The outcome for this response; refused if its session has ended since the login.

    The first response may follow the step-up of another tab: its user has authenticated, too.
    """
    assert outcome.live is not None
    copy = outcome.live.copy
    judged = copy if outcome.replayed else copy._replace(epoch=ANY_EPOCH)
    live = _require_live(party, await party.sessions.judge(judged))
    live = replace(live, copy=copy._replace(epoch=live.seen.row.epoch))
    return replace(outcome, session=live.session, live=live)


def _require_live(party: RelyingParty, found: Found) -> Live:
    """The session of a login; raises ProtocolViolation if it has ended."""
    if (live := unless_ended(party, found)) is None:
        explanation = "the session of this login has ended"
        raise ProtocolViolation(Code.AUTHORIZATION_TRANSACTION_MISSING, explanation)
    return live


async def _code(
    party: RelyingParty, parameters: Parameters, transaction: LoginTransaction
) -> AuthorizationCode:
    metadata = await party.provider.metadata()
    return AuthorizationCode.parse(
        parameters,
        state=transaction.state,
        issuer=party.settings.issuer,
        issuer_promised=metadata.promises_authorization_response_issuer,
    )


async def _redeem(login: Login) -> LoginOutcome:
    """The outcome that uses up the code; raises OIDCError if the code was not sent."""
    announce = login.party.announcer.announce
    try:
        return await _sign_in_once(login)
    except CodeNotSent as unsent:
        raise unsent.args[0] from None
    except OIDCError as error:
        announce(EventName.LOGIN_REFUSED, error)
        return LoginRefused(error, login.transaction.silent)
    except Exception as error:
        explanation = f"the application raised {type(error).__name__}"
        announce(EventName.LOGIN_REFUSED, explanation=explanation)
        raise


async def _without_transaction(
    party: RelyingParty, state: str, cookies: Mapping[str, str], changes: Changes
) -> SignedIn[Any]:
    """A callback without its transaction: harmless with a session, refused without one."""
    live = await current(party, cookies)
    if live is None:
        explanation = "this browser has no login for the state: expired, used, or begun elsewhere"
        if party.transactions.is_unreadable(state, cookies):
            explanation = (
                "the cookie of this login was sealed with another cookie_secret: all processes "
                "need the same one, also after a restart"
            )
        raise ProtocolViolation(Code.AUTHORIZATION_TRANSACTION_MISSING, explanation)
    path = party.settings.default_return_path
    return SignedIn(live.session, path, replayed=True, changes=changes)


async def _sign_in_once(login: Login) -> SignedIn[Any]:
    """The session of this login, made or confirmed only once across all processes.

    While the store is unavailable, the code is not sent: another process may have sent it.
    """
    party, silent = login.party, login.transaction.silent
    default = party.settings.default_return_path
    return_to = same_origin_path(login.transaction.return_to, default=default)
    key = f"login:{_name(login.transaction)}"
    base = rows.Row(expires_at=party.clock.now() + PENDING_SECONDS)
    turn = cells.Turn(party.sessions.cells, key, base, cells.Seen(), margin=LOGIN_SECONDS)
    while not turn.owns(row := await _taken(turn)):
        if row.ended:
            raise ProtocolViolation(
                Code.AUTHORIZATION_TRANSACTION_MISSING, "this login was refused before"
            )
        if row.content:
            copy = party.sessions.form.open(row.content.decode())
            found = await party.sessions.judge(copy._replace(epoch=ANY_EPOCH))
            live = replace(_require_live(party, found), copy=copy)
            return SignedIn(live.session, return_to, silent, replayed=True, live=live)
        await turn.pause()
    try:
        async with turn.renewing():
            live = await login.sign_in(turn.require_lease)
    except CodeNotSent:
        await turn.last(turn.release)
        raise
    except Exception:
        await turn.last(partial(turn.end, "expired"))
        raise
    cookie = party.sessions.cookie_of(live)
    result = rows.Row(content=cookie.encode(), expires_at=base.expires_at)
    await turn.last(partial(turn.finish, result))
    return SignedIn(live.session, return_to, silent, live=live)


async def _taken(turn: cells.Turn) -> rows.Row:
    """The row after `turn` asked for it; raises CodeNotSent while the store is unavailable."""
    try:
        return await turn.take()
    except SessionError as error:
        raise CodeNotSent(error) from error


def _name(transaction: LoginTransaction) -> str:
    """A name of one login that reveals nothing about it."""
    return hashlib.sha256(transaction.state.encode()).hexdigest()[:32]
