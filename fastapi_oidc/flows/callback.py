"""Complete a login: from the provider's response to a stored session (OpenID Connect Core 3.1)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.events import Event, EventName, refusal
from fastapi_oidc.flows.local_sessions import Postponed
from fastapi_oidc.flows.refresh import RefreshCoordinator, Refreshed
from fastapi_oidc.flows.relying_party import Changes, RelyingParty
from fastapi_oidc.flows.resume import current, has_ended
from fastapi_oidc.flows.revocation import end_current, end_previous
from fastapi_oidc.flows.token_sessions import (
    TokenBundle,
    apply_callbacks,
    new_session,
    with_new_login,
    with_new_tokens,
)
from fastapi_oidc.protocol.authorization import AuthorizationCode, response_state
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.id_token import Expected, IdToken, accept_id_token
from fastapi_oidc.protocol.return_path import same_origin_path
from fastapi_oidc.protocol.tenants import tenant_of
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import Identity, LoginTransaction, OIDCSession
from fastapi_oidc.session.record_hold import RecordHold
from fastapi_oidc.session.records import Phase, RefreshRecord
from fastapi_oidc.session.reference import SessionReference
from fastapi_oidc.ttl_cache import TTLCache

LOGIN_SECONDS: Final = 60
"""Seconds for which a repeated callback gets the same result."""

REMEMBERED_LOGINS: Final = 10_000
"""Maximum number of stored results of callbacks."""

_OFFLINE: Final = (
    "the provider issued no refresh token. It offers offline_access, which scope does not have. "
    "Sessions continue, but their access tokens soon expire. To call APIs as the user, add "
    "offline_access"
)


@dataclass(frozen=True, slots=True)
class SignedIn(Generic[Identity]):
    """The browser is signed in; `return_to` is a path of this application.

    `replayed`: the callback of an earlier login was repeated (a reload, the back button). `silent`:
    a check in a hidden iframe confirmed the existing session. `stored` is the stored session, None
    if the request already had it.
    """

    session: OIDCSession[Identity]
    return_to: str
    silent: bool = False
    replayed: bool = False
    changes: Changes = field(default=(), repr=False)
    stored: StoredSession[Identity] | None = field(default=None, repr=False)


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
        if transaction is None or transaction.issuer != party.policy.issuer:
            return await _without_transaction(party, callback, used_up)
        silent = transaction.silent
        login = _Login(await _code(party, callback, transaction), callback.cookies, transaction)
        outcome = await exchanges.once(
            _record_name(transaction), lambda: _redeemed(party, coordinator, login)
        )
        if isinstance(outcome, LoginRefused) and outcome.may_be_retried:
            return outcome
        if isinstance(outcome, SignedIn):
            await _require_active(party, outcome)
            outcome = replace(outcome, session=party.codec.copied(outcome.session))
        return replace(outcome, changes=used_up)
    except OIDCError as error:
        party.announcer(refusal(EventName.LOGIN_REFUSED, error, party.clock.now()))
        return LoginRefused(error, silent, () if isinstance(error, ProviderError) else used_up)


async def _require_active(party: RelyingParty[Identity], outcome: SignedIn[Identity]) -> None:
    """Refuse a repeated callback whose session has ended."""
    if not outcome.replayed or outcome.stored is None:
        return
    lookup = await party.backend.reread(outcome.stored)
    is_over = lookup is None or lookup.ended is not None
    if is_over or await has_ended(party, outcome.stored):
        raise ProtocolViolation(
            Code.AUTHORIZATION_TRANSACTION_MISSING, "the session of this login has ended"
        )


async def _code(
    party: RelyingParty[Identity], callback: Callback, transaction: LoginTransaction
) -> AuthorizationCode:
    metadata = await party.provider.metadata()
    return AuthorizationCode.parse(
        callback.parameters,
        state=transaction.state,
        issuer=party.policy.issuer,
        issuer_promised=metadata.promises_authorization_response_issuer,
        scope=_scope(party, transaction),
    )


def _scope(party: RelyingParty[Identity], transaction: LoginTransaction) -> tuple[str, ...]:
    return party.policy.scope if transaction.scope is None else transaction.scope


async def _redeemed(
    party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity], login: _Login
) -> LoginOutcome[Identity]:
    silent = login.transaction.silent
    try:
        if silent:
            return await _confirm(party, coordinator, login)
        return await _sign_in(party, login)
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
    stored = await current(party, callback.cookies)
    if stored is None:
        raise ProtocolViolation(
            Code.AUTHORIZATION_TRANSACTION_MISSING,
            "this browser has no login for the state: expired, used, or begun elsewhere",
        )
    path = party.policy.default_return_path
    return SignedIn(stored.session, path, replayed=True, changes=changes)


async def _sign_in(party: RelyingParty[Identity], login: _Login) -> SignedIn[Identity]:
    """The session of this login, made only once across all processes."""
    default = party.policy.default_return_path
    return_to = same_origin_path(login.transaction.return_to, default=default)
    if not party.has_shared_records:
        stored = await _new_session(party, login)
        return SignedIn(stored.session, return_to, stored=stored)
    name = _record_name(login.transaction)
    expires_at = party.clock.now() + LOGIN_SECONDS
    hold = party.hold(name, 0, expires_at, margin=LOGIN_SECONDS)
    other = await _of_another_process(party, hold)
    if other is not None:
        return SignedIn(other.session, return_to, replayed=True, stored=other)
    try:
        stored = await _new_session(party, login)
    except _CodeNotSent:
        await hold.release()
        raise
    except Exception:
        await hold.end()
        raise
    await hold.done(_written(party, stored))
    return SignedIn(stored.session, return_to, stored=stored)


async def _of_another_process(
    party: RelyingParty[Identity], hold: RecordHold
) -> StoredSession[Identity] | None:
    """The session that another process made from the same callback; None to make it here.

    Unavailable records do not prevent a login. Raises ProtocolViolation when the other process has
    used up the code without a session (RFC 6749 4.1.2: only once).
    """
    try:
        while True:
            record = await hold.take()
            if hold.owns(record):
                return None
            if record.session:
                return _read(party, record)
            if record.phase is Phase.ENDED:
                raise ProtocolViolation(
                    Code.AUTHORIZATION_TRANSACTION_MISSING, "another process refused this login"
                )
            await hold.pause()
    except SessionError:
        return None


def _written(party: RelyingParty[Identity], stored: StoredSession[Identity]) -> bytes:
    """The reference's secret, if there is one, and the session as JSON without line breaks."""
    encoded = party.codec.encode(stored.session)
    secret = stored.reference.secret if stored.reference else None
    return (secret or b"").hex().encode() + b"\n" + encoded


def _read(party: RelyingParty[Identity], record: RefreshRecord) -> StoredSession[Identity]:
    secret, _, encoded = record.session.partition(b"\n")
    reference = SessionReference.of(bytes.fromhex(secret.decode())) if secret else None
    return StoredSession(party.codec.decode(encoded), reference)


async def _csrf_id(party: RelyingParty[Identity], login: _Login, id_token: IdToken) -> str | None:
    """The id from which the CSRF tokens of open pages were made, if the same user steps up.

    So the open pages can still send their forms. An unavailable store does not prevent a login.
    """
    if not login.transaction.steps_up:
        return None
    stored = None
    with suppress(SessionError):
        stored = await current(party, login.cookies)
    if stored is None or not _is_of_same_user(stored.session, id_token):
        return None
    return stored.session.csrf_id or stored.session.id


def _is_of_same_user(session: OIDCSession[Identity], id_token: IdToken) -> bool:
    """Whether issuer, tenant and `sub` are the same: `sub` alone is not unique (Core 5.7)."""
    before = session.issuer, tenant_of(session.claims), session.sub
    return before == (id_token.iss, tenant_of(id_token.claims), id_token.sub)


async def _new_session(party: RelyingParty[Identity], login: _Login) -> StoredSession[Identity]:
    """A new session in a new place; the browser's former session ends."""
    bundle, id_token = await _exchange_code(party, login)
    resolving = party.application.identity_of(
        id_token.claims, bundle.user_info, bundle.response.access_token
    )
    session = new_session(party, bundle, id_token, await party.within_time_limit(resolving))
    # Read before the session is stored, so that a revocation in between ends the session.
    stamps = await party.backend.stamps(session)
    csrf_id = await _csrf_id(party, login, id_token)
    session = session.model_copy(update={"prior_revocations": stamps, "csrf_id": csrf_id})
    session = await party.within_time_limit(party.application.approved(session, "login"))
    stored = party.backend.place(session)
    party.backend.cookies(stored, party.clock.now())  # raises CookieTooLarge
    await _advise_on_tokens(party, bundle.response)
    await party.backend.save(stored)
    await _end_previous(party, login)
    party.announce(
        EventName.LOGIN_SUCCEEDED, sub=session.sub, session_id=session.id, sid=session.sid
    )
    return stored


async def _advise_on_tokens(party: RelyingParty[Identity], tokens: TokenResponse) -> None:
    """Advise the scope offline_access if a login got no refresh token (Core 11)."""
    if tokens.refresh_token is not None or "offline_access" in party.policy.scope:
        return
    with suppress(OIDCError):
        if (await party.provider.metadata()).offers_offline_access:
            party.announcer.advise("scope", _OFFLINE)


async def _end_previous(party: RelyingParty[Identity], login: _Login) -> None:
    """End the browser's current session, and the session that it had when the login began.

    They differ if the callback was a cross-site form post, which has no session cookie.
    """
    ended = await end_current(party, login.cookies)
    previous = login.transaction.previous
    if previous is None or (ended is not None and ended.session.id == previous.id):
        return
    await end_previous(party, previous, "signed_out")


async def _confirm(
    party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity], login: _Login
) -> SignedIn[Identity]:
    """The session with new tokens, if the end user is the same (Session Management 3.1).

    Raises SessionError when the session has ended in the meantime, ProtocolViolation
    (authorization.other_user) for another user.
    """
    bundle, id_token = await _exchange_code(party, login)
    stored = await current(party, login.cookies)
    if stored is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session ended while it was being confirmed")
    if stored.session.sub != id_token.sub:
        raise ProtocolViolation(Code.AUTHORIZATION_OTHER_USER)

    async def confirmed(now: StoredSession[Identity]) -> StoredSession[Identity]:
        session = with_new_tokens(party, now.session, bundle)
        # Later ID tokens are compared with the ID token that came with the refresh token.
        if bundle.response.refresh_token is not None:
            session = with_new_login(session, id_token)
        return await apply_callbacks(party, now, session, bundle)

    outcome = await coordinator.replace(stored, confirmed)
    if isinstance(outcome, Refreshed):
        return SignedIn(outcome.stored.session, "/", silent=True, stored=outcome.stored)
    if isinstance(outcome, Postponed):
        explanation = "the session cannot be refreshed right now"
        raise SessionError(Code.SESSION_REFRESH_POSTPONED, explanation)
    raise SessionError(Code.SESSION_SIGNED_OUT, "the session ended while it was being confirmed")


async def _exchange_code(
    party: RelyingParty[Identity], login: _Login
) -> tuple[TokenBundle, IdToken]:
    """Exchange the code and validate the result. The code is used up unless _CodeNotSent is raised.

    The provider's keys are fetched afterwards: its response may name a new key.
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
    user_info = None
    if party.policy.fetch_userinfo:
        user_info = await party.provider.userinfo(tokens.access_token, sub=id_token.sub, key=key)
    session_state = login.code.session_state or tokens.session_state
    return TokenBundle(tokens, id_token, user_info, session_state, received_at, key), id_token


async def _proof_key(party: RelyingParty[Identity], login: _Login) -> DPoPKey | None:
    """The key for the new tokens; a silent login uses the session's key.

    The session's refresh token may stay the same, and it is bound to that key (RFC 9449 5).
    """
    if not party.policy.dpop:
        return None
    stored = await current(party, login.cookies) if login.transaction.silent else None
    return DPoPKey.new() if stored is None else stored.session.tokens.proof_key()


async def _accepted(
    party: RelyingParty[Identity], tokens: TokenResponse, transaction: LoginTransaction
) -> IdToken:
    verified = await party.provider.verify(tokens.required_id_token())
    expected = Expected(
        issuer=party.policy.issuer,
        client_id=party.policy.client_id,
        trusted_audiences=party.policy.trusted_audiences,
        nonce=transaction.nonce,
        access_token=tokens.access_token,
        algorithm=verified.algorithm,
        max_age=transaction.max_age,
        acr_values=transaction.acr_values,
        tenants=party.policy.tenants,
    )
    return accept_id_token(verified.claims, expected, party.clock.instant())


def _record_name(transaction: LoginTransaction) -> str:
    """The name of one login's record, which reveals nothing about the login."""
    return f"login.{hashlib.sha256(transaction.state.encode()).hexdigest()[:32]}"


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
