"""Complete a login: from the provider's response to a stored session (OpenID Connect Core 3.1)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.events import Event, EventName, refusal
from fastapi_oidc.flows.outcomes import Outcome, Postponed, Refreshed
from fastapi_oidc.flows.refresh import RefreshCoordinator
from fastapi_oidc.flows.relying_party import Changes, RelyingParty
from fastapi_oidc.flows.resume import current, unless_ended
from fastapi_oidc.flows.revocation import discard_tokens, may_share_grant
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live, Prepared
from fastapi_oidc.flows.token_sessions import (
    TokenBundle,
    apply_callbacks,
    applying,
    new_session,
    with_new_login,
    with_new_tokens,
)
from fastapi_oidc.protocol.authorization import AuthorizationCode, response_state
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.id_token import Expected, IdToken, accept_id_token
from fastapi_oidc.protocol.return_path import same_origin_path
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.cells import Seen, Turn
from fastapi_oidc.session.cookies import PENDING_SECONDS
from fastapi_oidc.session.copies import Copy
from fastapi_oidc.session.model import Identity, LoginTransaction, OIDCSession, SteppedUp
from fastapi_oidc.session.rows import Row
from fastapi_oidc.ttl_cache import TTLCache

LOGIN_SECONDS: Final = 60
"""Seconds for which a repeated callback gets the same result."""

REMEMBERED_LOGINS: Final = 10_000
"""Maximum number of stored results of callbacks."""

_NOBODY: Final[Any] = None
"""The identity of a session that is never stored."""

_OFFLINE: Final = (
    "the provider issued no refresh token. It offers offline_access, which scope does not have. "
    "Sessions continue, but their access tokens soon expire. To call APIs as the user, add "
    "offline_access"
)


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
    live: Live[Identity] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class LoginRefused:
    """A login's callback was refused.

    `may_be_retried`: the provider has not received the code, so the callback can be repeated.
    """

    error: OIDCError
    silent: bool = False
    changes: Changes = field(default=(), repr=False)
    may_be_retried: bool = False


@dataclass(frozen=True, slots=True)
class LoginFailed:
    """The application raised `error` in the callback; the code is used up."""

    error: Exception
    changes: Changes = field(default=(), repr=False)


LoginOutcome: TypeAlias = SignedIn[Identity] | LoginRefused | LoginFailed


@dataclass(frozen=True, slots=True)
class Callback:
    """The provider's response in the browser's request."""

    parameters: Mapping[str, Sequence[str]] = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Login:
    """A callback with its pending login."""

    code: AuthorizationCode = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)
    transaction: LoginTransaction


class _CodeNotSent(Exception):
    """No connection was made, so the provider has not received the code."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__()
        self.error = error


class CodeExchanges(Generic[Identity]):
    """Exchanges each code once, even if the browser repeats the callback.

    A code must not be used more than once, and a provider that receives it again may revoke the
    tokens (RFC 6749 4.1.2). A reload of a slow callback sends it again. So an exchange does not
    belong to a request and is never cancelled. Errors are stored without their traceback, whose
    frames contain the code and all cookies. A callback waits at most `seconds`.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._running: SingleFlight[str, LoginOutcome[Identity]] = SingleFlight()
        self._outcomes: TTLCache[str, LoginOutcome[Identity]] = TTLCache(
            clock, max_entries=REMEMBERED_LOGINS
        )

    async def once(
        self, name: str, exchange: Callable[[], Coroutine[object, object, LoginOutcome[Identity]]]
    ) -> LoginOutcome[Identity]:
        """The outcome of `exchange` for this callback or an earlier identical one.

        Raises ProviderError (provider.timeout) when it takes too long; a reload then gets the
        outcome.
        """
        outcome = self._outcomes.get(name)
        if outcome is not None:
            return self._delivered(name, _without_frames(outcome))

        async def run() -> LoginOutcome[Identity]:
            outcome = await exchange()
            if not (isinstance(outcome, LoginRefused) and outcome.may_be_retried):
                expires_at = self._clock.now() + LOGIN_SECONDS
                self._outcomes.set(name, _without_frames(outcome), expires_at=expires_at)
            return outcome

        task = self._running.start(name, run)
        await asyncio.wait([task], timeout=self._seconds)
        if not task.done():
            explanation = f"the sign-in took longer than {self._seconds:g} seconds"
            raise ProviderError(Code.PROVIDER_TIMEOUT, explanation)
        return self._delivered(name, task.result())

    def _delivered(self, name: str, outcome: LoginOutcome[Identity]) -> LoginOutcome[Identity]:
        """`outcome` for one response; later responses get it with `replayed=True`."""
        stored = self._outcomes.get(name)  # another waiting request may be the first
        if not isinstance(stored, SignedIn):
            return outcome
        replayed = replace(stored, replayed=True)
        self._outcomes.set(name, replayed, expires_at=self._outcomes.expires_at(name))
        return stored

    async def aclose(self) -> None:
        """Wait for the exchanges under way: their codes are used up."""
        await self._running.wait(self._seconds)


async def complete_login(
    party: RelyingParty[Identity],
    coordinator: RefreshCoordinator[Identity],
    exchanges: CodeExchanges[Identity],
    callback: Callback,
) -> LoginOutcome[Identity]:
    """A session for a valid response, a refusal for any other. Both use up the transaction.

    While the provider is unavailable nothing is used up, so a reload tries again.
    """
    used_up: Changes = ()
    silent = False
    try:
        state = response_state(callback.parameters)
        used_up = party.transactions.ended(state, callback.cookies)
        transaction = party.transactions.find(state, callback.cookies, now=party.clock.now())
        if transaction is None or transaction.issuer != party.settings.issuer:
            return await _without_transaction(party, callback, used_up)
        silent = transaction.silent
        login = _Login(await _code(party, callback, transaction), callback.cookies, transaction)
        outcome = await exchanges.once(
            _name(transaction), lambda: _redeemed(party, coordinator, login)
        )
        if isinstance(outcome, LoginRefused) and outcome.may_be_retried:
            return outcome
        if isinstance(outcome, SignedIn):
            outcome = await _again(party, outcome)
        return replace(outcome, changes=used_up)
    except OIDCError as error:
        party.announcer(refusal(EventName.LOGIN_REFUSED, error, party.clock.now()))
        return LoginRefused(error, silent, () if isinstance(error, ProviderError) else used_up)


async def _again(party: RelyingParty[Identity], outcome: SignedIn[Identity]) -> SignedIn[Identity]:
    """The outcome of a repeated callback; refused if its session has ended."""
    if not outcome.replayed or outcome.live is None:
        return outcome
    copy = outcome.live.copy
    if copy.session is not None:
        copy = copy._replace(session=copy.session.model_copy(deep=True))
    found = await party.sessions.judge(copy)
    if not isinstance(found, Live):
        raise _ended()
    return replace(outcome, session=found.session, live=found)


def _ended() -> ProtocolViolation:
    explanation = "the session of this login has ended"
    return ProtocolViolation(Code.AUTHORIZATION_TRANSACTION_MISSING, explanation)


async def _code(
    party: RelyingParty[Identity], callback: Callback, transaction: LoginTransaction
) -> AuthorizationCode:
    metadata = await party.provider.metadata()
    return AuthorizationCode.parse(
        callback.parameters,
        state=transaction.state,
        issuer=party.settings.issuer,
        issuer_promised=metadata.promises_authorization_response_issuer,
        scope=_scope(party, transaction),
    )


def _scope(party: RelyingParty[Identity], transaction: LoginTransaction) -> tuple[str, ...]:
    return tuple(party.settings.scope) if transaction.scope is None else transaction.scope


async def _redeemed(
    party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity], login: _Login
) -> LoginOutcome[Identity]:
    silent = login.transaction.silent
    try:
        if silent:
            return await _confirm(party, coordinator, login)
        return await _sign_in(party, coordinator, login)
    except _CodeNotSent as unsent:
        party.announcer(refusal(EventName.LOGIN_REFUSED, unsent.error, party.clock.now()))
        return LoginRefused(unsent.error, silent, may_be_retried=True)
    except OIDCError as error:
        party.announcer(refusal(EventName.LOGIN_REFUSED, error, party.clock.now()))
        return LoginRefused(error, silent)
    except Exception as error:
        explanation = f"the application raised {type(error).__name__}"
        party.announcer(Event(EventName.LOGIN_REFUSED, party.clock.now(), explanation=explanation))
        return LoginFailed(error)


async def _without_transaction(
    party: RelyingParty[Identity], callback: Callback, changes: Changes
) -> SignedIn[Identity]:
    """A callback without its transaction: harmless with a session, refused without one."""
    live = await current(party, callback.cookies)
    if live is None:
        raise ProtocolViolation(
            Code.AUTHORIZATION_TRANSACTION_MISSING,
            "this browser has no login for the state: expired, used, or begun elsewhere",
        )
    path = party.settings.default_return_path
    return SignedIn(live.session, path, replayed=True, changes=changes)


async def _sign_in(
    party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity], login: _Login
) -> SignedIn[Identity]:
    """The session of this login, made only once across all processes.

    While the store is unavailable, the code is not sent: another process may have sent it.
    """
    default = party.settings.default_return_path
    return_to = same_origin_path(login.transaction.return_to, default=default)
    key = f"login:{_name(login.transaction)}"
    mine = Row(expires_at=party.clock.now() + PENDING_SECONDS)
    turn = Turn(party.sessions.cells, key, mine, Seen(), margin=LOGIN_SECONDS)
    while not turn.owns(row := await turn.take()):
        if row.ended:
            raise ProtocolViolation(
                Code.AUTHORIZATION_TRANSACTION_MISSING, "another process refused this login"
            )
        if row.content:
            live = await _read(party, row)
            return SignedIn(live.session, return_to, replayed=True, live=live)
        await turn.pause()
    try:
        async with turn.renewing():
            live = await _new_session(party, coordinator, login)
    except _CodeNotSent:
        await turn.last(turn.release)
        raise
    except Exception:
        await turn.last(partial(turn.end, "expired"))
        raise
    result = Row(content=_written(live), expires_at=mine.expires_at)
    await turn.last(partial(turn.finish, result))
    return SignedIn(live.session, return_to, live=live)


def _written(live: Live[Identity]) -> bytes:
    """What leads to the session of a login, for a repeated callback in another process."""
    copy = live.copy
    head = [copy.id, copy.epoch, copy.expires_at, copy.secret.hex()]
    return json.dumps(head).encode() + b"\n" + live.cookie.encode()


async def _read(party: RelyingParty[Identity], row: Row) -> Live[Identity]:
    """The session of a repeated callback; raises ProtocolViolation if it has ended."""
    head, _, cookie = row.content.partition(b"\n")
    id, epoch, expires_at, secret = json.loads(head)
    copy = party.sessions.copy_in({party.sessions.names.session: cookie.decode()})
    copy = copy or Copy(id, (), epoch, expires_at, secret=bytes.fromhex(secret))
    found = await party.sessions.judge(copy)
    if not isinstance(found, Live):
        raise _ended()
    return found


async def _new_session(
    party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity], login: _Login
) -> Live[Identity]:
    """A new session, and the browser's former one ends; after a step-up, its next generation."""
    bundle, id_token, stamps = await _exchange_code(party, login)
    try:
        before = await _before(party, login)
        continued = unless_ended(party, before) if login.transaction.steps_up else None
        if continued is not None and _is_of(continued, id_token):
            return await _stepped_up(
                party, coordinator, continued, bundle, id_token, _asked(party, login)
            )
        resolving = party.application.identity_of(
            id_token.claims, bundle.user_info, bundle.response.access_token
        )
        session = new_session(party, bundle, id_token, await party.within_time_limit(resolving))
        session = session.model_copy(
            update={"prior_revocations": stamps, "stepped_up": _asked(party, login)}
        )
        with applying(session):
            approving = party.application.approved(session, "login")
            session = await party.within_time_limit(approving)
        prepared = party.sessions.prepare(session)
        await _advise_on_tokens(party, bundle.response)
        live = await party.sessions.begin(prepared)
    except Exception:
        await _discard(party, login, bundle, id_token)
        raise
    await _end_previous(party, login, before, session)
    party.announce(
        EventName.LOGIN_SUCCEEDED, sub=session.sub, session_id=session.id, sid=session.sid
    )
    return live


async def _before(party: RelyingParty[Identity], login: _Login) -> Found[Identity]:
    """The browser's session when the login began, or the one that it has now.

    They differ if the callback is a cross-site form post, which has no session cookie.
    """
    previous = login.transaction.previous
    copy = party.sessions.copy_in(login.cookies)
    if copy is None and previous is not None:
        secret = bytes.fromhex(previous.secret)
        copy = Copy(previous.id, (), ANY_EPOCH, previous.expires_at, secret=secret)
    return None if copy is None else await party.sessions.judge(copy)


def _is_of(live: Live[Identity], id_token: IdToken) -> bool:
    """Whether the session is of the same user: `sub` alone is not unique (Core 5.7)."""
    return (live.session.issuer, live.session.sub) == (id_token.iss, id_token.sub)


def _asked(party: RelyingParty[Identity], login: _Login) -> SteppedUp | None:
    transaction = login.transaction
    if not transaction.steps_up:
        return None
    now = party.clock.now()
    return SteppedUp(at=now, max_age=transaction.max_age, acr_values=transaction.acr_values)


async def _stepped_up(
    party: RelyingParty[Identity],
    coordinator: RefreshCoordinator[Identity],
    before: Live[Identity],
    bundle: TokenBundle,
    id_token: IdToken,
    asked: SteppedUp | None,
) -> Live[Identity]:
    """The session's next generation after its user has signed in again.

    Earlier copies of its cookie are refused from now on: somebody else may have one.
    """

    async def make(live: Live[Identity]) -> Prepared[Identity]:
        session = with_new_login(with_new_tokens(party, live.session, bundle), id_token)
        # The refresh token of the login before would bring ID tokens of that login (Core 12.2).
        tokens = session.tokens.model_copy(update={"refresh_token": bundle.response.refresh_token})
        changes = {"authenticated_at": id_token.iat, "tokens": tokens, "stepped_up": asked}
        session = session.model_copy(update=changes)
        return await apply_callbacks(party, live, session, bundle)

    return live_after(await coordinator.replace(party, before, make, new_epoch=True))


def live_after(outcome: Outcome[Identity]) -> Live[Identity]:
    """The session after a login that continues it; raises SessionError without one."""
    if isinstance(outcome, Refreshed):
        return outcome.live
    if isinstance(outcome, Postponed):
        explanation = "the session cannot be refreshed right now"
        raise SessionError(Code.SESSION_REFRESH_POSTPONED, explanation)
    raise SessionError(Code.SESSION_SIGNED_OUT, "the session ended while it was being confirmed")


async def _discard(
    party: RelyingParty[Identity], login: _Login, bundle: TokenBundle, id_token: IdToken
) -> None:
    """Revoke the tokens of a refused login, unless the browser's session may share them."""
    refused = new_session(party, bundle, id_token, _NOBODY)
    before: Found[Identity] = None
    with suppress(SessionError):
        before = await _before(party, login)
    if not isinstance(before, Live) or not may_share_grant(refused, before.session):
        await discard_tokens(party, refused)


async def _advise_on_tokens(party: RelyingParty[Identity], tokens: TokenResponse) -> None:
    """Advise the scope offline_access if a login got no refresh token (Core 11)."""
    if tokens.refresh_token is not None or "offline_access" in party.settings.scope:
        return
    with suppress(OIDCError):
        if (await party.provider.metadata()).offers_offline_access:
            party.announcer.advise("scope", _OFFLINE)


async def _end_previous(
    party: RelyingParty[Identity],
    login: _Login,
    before: Found[Identity],
    session: OIDCSession[Identity],
) -> None:
    """End the session that the browser had, and the one that it had when the login began."""
    ends = {before.session.id: before.session.last_end} if isinstance(before, Live) else {}
    if previous := login.transaction.previous:
        ends[previous.id] = previous.expires_at
    for id, expires_at in ends.items():
        await party.sessions.end(id, "signed_out", expires_at=expires_at)
    if isinstance(before, Live) and not may_share_grant(before.session, session):
        await discard_tokens(party, before.session)


async def _confirm(
    party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity], login: _Login
) -> SignedIn[Identity]:
    """The session with new tokens, if the end user is the same (Session Management 3.1).

    Raises SessionError when the session has ended in the meantime, ProtocolViolation
    (authorization.other_user) for another user.
    """
    bundle, id_token, _ = await _exchange_code(party, login)
    live = await current(party, login.cookies)
    if live is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session ended while it was being confirmed")
    if not _is_of(live, id_token):
        raise ProtocolViolation(Code.AUTHORIZATION_OTHER_USER)

    async def make(now: Live[Identity]) -> Prepared[Identity]:
        session = with_new_tokens(party, now.session, bundle)
        # Later ID tokens are compared with the ID token that came with the refresh token.
        if bundle.response.refresh_token is not None:
            session = with_new_login(session, id_token)
        return await apply_callbacks(party, now, session, bundle)

    live = live_after(await coordinator.replace(party, live, make))
    return SignedIn(live.session, "/", silent=True, live=live)


async def _exchange_code(
    party: RelyingParty[Identity], login: _Login
) -> tuple[TokenBundle, IdToken, tuple[str, ...]]:
    """Exchange the code and validate the result. The code is used up unless _CodeNotSent is raised.

    The provider's keys are fetched afterwards: its response may name a new key. The third part of
    the result are the stamps of earlier revocations of the user. They are read before everything
    that a revocation may be about, such as the user's roles.
    """
    transaction, key = login.transaction, await _proof_key(party, login)
    try:
        tokens = await party.provider.exchange_code(
            login.code, transaction.redirect_uri, transaction.code_verifier, key=key
        )
    except ProviderError as error:
        if error.is_unsent:
            raise _CodeNotSent(error) from error
        raise
    if tokens.scope is None:  # the requested scope (RFC 6749 5.1)
        tokens = replace(tokens, scope=_scope(party, transaction))
    received_at = party.clock.now()
    id_token = await _accepted(party, tokens, transaction)
    bundle = TokenBundle(tokens, id_token, None, None, received_at, key)
    stamps = await party.sessions.stamps(new_session(party, bundle, id_token, _NOBODY))
    user_info = None
    if party.settings.fetch_userinfo:
        user_info = await party.provider.userinfo(tokens.access_token, sub=id_token.sub, key=key)
    session_state = login.code.session_state or tokens.session_state
    bundle = replace(bundle, user_info=user_info, session_state=session_state)
    return bundle, id_token, stamps


async def _proof_key(party: RelyingParty[Identity], login: _Login) -> DPoPKey | None:
    """The key for the new tokens; a silent login uses the session's key.

    The session's refresh token may stay the same, and it is bound to that key (RFC 9449 5).
    """
    if not party.settings.dpop:
        return None
    live = await current(party, login.cookies) if login.transaction.silent else None
    return DPoPKey.new() if live is None else live.session.tokens.proof_key()


async def _accepted(
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


def _name(transaction: LoginTransaction) -> str:
    """A name of one login that reveals nothing about it."""
    return f"{hashlib.sha256(transaction.state.encode()).hexdigest()[:32]}"


def _without_frames(outcome: LoginOutcome[Identity]) -> LoginOutcome[Identity]:
    """`outcome` with a copy of its error that has no traceback.

    An exception of the application that cannot be copied is returned unchanged.
    """
    if isinstance(outcome, SignedIn):
        return outcome
    try:
        error = copy(outcome.error)
        return replace(outcome, error=error)  # type: ignore[arg-type]  # of the same type
    except Exception:
        return outcome
