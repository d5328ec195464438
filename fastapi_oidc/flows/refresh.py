"""One refresh for each session and generation, shared by all requests and processes.

A provider may accept a refresh token only once. So a refresh does not belong to a request and is
never cancelled. The session's refresh record says which process sends the token, and stores the
response until the next session is saved (`docs/decisions/017-one-record-for-each-session.md`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import ConcurrencyLimit, ShutdownGate, ShuttingDown, SingleFlight
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, SessionError
from fastapi_oidc.events import EventName, refusal
from fastapi_oidc.flows.local_sessions import Postponed, TokenAnswer
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import TOKEN_REVOCATION_SECONDS, end, revoke_refresh_token
from fastapi_oidc.flows.token_sessions import apply_refresh, with_new_refresh_token
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.protocol.refusal import NonceRequired, RefusedGrant, RefusedRequest
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.provider import Undecided
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.record_hold import RecordHold
from fastapi_oidc.session.records import Phase, RefreshRecord, end_reason_in

CONCURRENT_REFRESHES: Final = 32
"""Maximum number of refreshes under way in one process; the others wait and are not sent."""

START_SECONDS: Final = 30.0
"""Seconds that a request waits for its refresh to start. The refresh itself continues."""

VALID_TOKEN_PATIENCE: Final = 5.0
"""Seconds that a refresh waits for the same refresh in another process, which may have died, while
the access token is valid. Otherwise it waits `provider_timeout`.
"""

FIRST_BACKOFF, LONGEST_BACKOFF = 5, 60
"""Seconds between two attempts while the provider is unavailable; doubled each time."""

RETRY_SECONDS: Final = 1
"""Seconds until a retry, if the refresh is still under way or a shutdown has begun."""

REFUSALS_BEFORE_END: Final = 4
"""Consecutive refusals of a refresh token, for a reason that RFC 6749 5.2 does not name, after
which a session without a valid access token ends; the first and last are 35 seconds apart.
"""

UNVERIFIED_SECONDS: Final = 3600
"""Seconds for which a response is stored whose ID token no key of the provider verifies."""


@dataclass(frozen=True, slots=True)
class Refreshed(Generic[Identity]):
    """The session continues as `stored`.

    `is_new`: the provider has just issued its tokens for this caller; otherwise the state is of an
    earlier refresh, or of a token request for another API.
    """

    stored: StoredSession[Identity]
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The session was ended by the provider, a protocol rule, the application or the user."""

    code: Code
    because: str = ""
    reason: EndReason | None = None


RefreshOutcome: TypeAlias = Refreshed[Identity] | Ended | Postponed


class _NotMade(Exception):
    """`make` failed with the cause of this error; the session is unchanged."""


Make: TypeAlias = Callable[[StoredSession[Identity]], Awaitable[StoredSession[Identity]]]
_Making: TypeAlias = Callable[["_Run[Identity]"], Awaitable[StoredSession[Identity]]]
Serves: TypeAlias = Callable[[OIDCSession[Identity]], bool]


@dataclass(slots=True)
class _Run(Generic[Identity]):
    """One refresh of `stored`; with `make`, the session that `make` returns replaces it instead."""

    stored: StoredSession[Identity]
    make: _Making[Identity] | None
    hold: RecordHold
    require_running: Callable[[], None]
    started: asyncio.Event = field(default_factory=asyncio.Event)
    answer: TokenAnswer | None = None
    is_new: bool = False


class RefreshCoordinator(Generic[Identity]):
    """Refreshes sessions."""

    def __init__(self, party: RelyingParty[Identity]) -> None:
        self._party, self._clock = party, party.clock
        self._limit = ConcurrencyLimit(CONCURRENT_REFRESHES)
        self._tasks: SingleFlight[str, RefreshOutcome[Identity]] = SingleFlight()
        self._runs: dict[str, _Run[Identity]] = {}
        self._gate = ShutdownGate()

    async def refresh(
        self,
        stored: StoredSession[Identity],
        serves: Serves[Identity] = lambda session: True,
    ) -> RefreshOutcome[Identity]:
        """The outcome of refreshing `stored`: one request to the provider for all waiting callers.

        A state of the session that is newer than `stored` is the outcome if it `serves`; otherwise
        that state is refreshed. Raises SessionError when the session store cannot be read or
        written.
        """
        return await self._completed(stored, None, serves)

    async def replace(
        self, stored: StoredSession[Identity], make: Make[Identity]
    ) -> RefreshOutcome[Identity]:
        """The outcome of replacing `stored` with the session from `make`, in place of a refresh.

        A refresh under way, or one with a stored response, is completed first; `make` gets the
        newest state. An exception of `make` is raised here and leaves the session unchanged.
        """
        return await self._completed(stored, lambda run: make(run.stored))

    async def refresh_for(
        self, stored: StoredSession[Identity], api: DownstreamAPI
    ) -> tuple[RefreshOutcome[Identity], TokenAnswer | None]:
        """Get a token for `api` with the refresh token of `stored` (RFC 8707 2.2).

        The result is the outcome for the session and the response with the token. The session keeps
        its access token and gets the new refresh token. A refusal of the provider is raised here
        and does not end the session: the next refresh decides that.
        """
        answers: list[TokenAnswer] = []

        async def make(run: _Run[Identity]) -> StoredSession[Identity]:
            run.answer = await self._presented(run, api)
            answers.append(run.answer)
            return with_new_refresh_token(self._party, run.stored, run.answer)

        outcome = await self._completed(stored, make)
        return outcome, answers[-1] if answers else None

    async def _completed(
        self,
        stored: StoredSession[Identity],
        make: _Making[Identity] | None,
        serves: Serves[Identity] = lambda session: False,
    ) -> RefreshOutcome[Identity]:
        """The outcome of a run with this `make`, after the runs under way, or one that `serves`."""
        while True:
            stored = self._party.sessions.newest(stored) if make else stored
            outcome = None if make else self._known(stored)
            outcome = outcome or await self._outcome(stored, make)
            if isinstance(outcome, Refreshed):
                if outcome.is_new or serves(outcome.stored.session):
                    return outcome
                stored = outcome.stored
            elif outcome is not None:
                return outcome

    async def aclose(self) -> None:
        """Wait for the responses to token requests that were sent, and send no further requests.

        Their refresh tokens are used up, so the responses must not be lost.
        """
        policy = self._party.policy
        with self._gate.closed():
            await self._tasks.wait(policy.provider_timeout + policy.callback_timeout)

    def _known(self, stored: StoredSession[Identity]) -> RefreshOutcome[Identity] | None:
        """The known outcome for `stored`; None if it must be refreshed."""
        sessions, session = self._party.sessions, stored.session
        if (reason := sessions.ended(session)) is not None:
            return Ended(Code.SESSION_SIGNED_OUT, reason=reason)
        newest = sessions.newest(stored)
        if newest.session.generation > session.generation:
            return Refreshed(newest)
        postponed = sessions.postponed(session)
        if postponed is None:
            return None
        # A retry time that is farther away than the pause is from before the clock was set back.
        is_due = not 0 < postponed.retry_at - self._clock.now() <= postponed.pause
        return None if is_due else postponed

    async def _outcome(
        self, stored: StoredSession[Identity], make: _Making[Identity] | None
    ) -> RefreshOutcome[Identity] | None:
        """The outcome of the run under way, or of a new one, with a limited wait.

        None if the `make` of another caller has failed.
        """
        session, party = stored.session, self._party

        def start() -> Coroutine[object, object, RefreshOutcome[Identity]]:
            hold = party.hold(session.id, session.generation, session.expires_at)
            run = self._runs[session.id] = _Run(stored, make, hold, self._gate.ticket())
            return self._outcome_of(run)

        task = self._tasks.start(session.id, start)
        run = self._runs.get(session.id)
        if run is not None:  # an eager task may be done immediately
            with suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    await run.started.wait()
                limit = party.policy.provider_timeout + party.policy.callback_timeout
                await asyncio.wait([task], timeout=limit)
        if not task.done():
            return self._not_now(session, "it is still under way")
        is_of_caller = run is None or run.make is make
        try:
            outcome = task.result()
        except _NotMade as failed:
            if is_of_caller and failed.__cause__ is not None:
                raise failed.__cause__ from None
            return None
        return _of_caller(outcome, stored, is_new=is_of_caller)

    async def _outcome_of(self, run: _Run[Identity]) -> RefreshOutcome[Identity]:
        session = run.stored.session
        try:
            # Get the metadata and keys first: the refresh token may be sent only once.
            await self._party.provider.prepare_refresh()
            return await self._excluding_others(run)
        except ShuttingDown:
            return self._not_now(session, "a shutdown has begun")
        except OIDCError as error:
            if isinstance(error, SessionError) and error.code is not Code.SESSION_LOCK_UNAVAILABLE:
                raise
            postponed = self._postponed(session, error)
            if postponed.refusals >= REFUSALS_BEFORE_END and _has_expired(session, self._clock):
                return await self._refused(run.stored, error)
            return postponed
        finally:
            run.started.set()
            if self._runs.get(session.id) is run:
                del self._runs[session.id]

    async def _excluding_others(self, run: _Run[Identity]) -> RefreshOutcome[Identity]:
        """Like `_taken`, within the application's own lock if there is one."""
        lock = self._party.refresh_lock
        if lock is None:
            return await self._taken(run)
        results: list[RefreshOutcome[Identity] | Exception] = []

        async def operation() -> None:
            try:
                results.append(await self._taken(run))
            except Exception as error:
                results.append(error)

        try:
            await lock.run_exclusive(run.stored.session.id, operation)
        except Exception as error:
            if not results:
                explanation = f"the refresh lock raised {type(error).__name__}"
                raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation) from error
        if not results:
            explanation = "the refresh lock did not run its operation"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]

    async def _taken(self, run: _Run[Identity]) -> RefreshOutcome[Identity]:
        """Own the record and make the next session, or wait for the other process that makes it."""
        patience = self._party.policy.provider_timeout
        if not _has_expired(run.stored.session, self._clock):
            patience = min(patience, VALID_TOKEN_PATIENCE)
        while True:
            async with self._limit.slot():
                run.require_running()
                run.started.set()
                record = await run.hold.take()
                if run.hold.owns(record):
                    return await self._held(run, record)
            outcome = await self._of_others(run.stored, record)
            if outcome is not None:
                return outcome
            if run.hold.waited > patience:
                if self._is_lost(run.stored, record):
                    return await self._lost(run.stored)
                explanation = "another process refreshes the session and may still get a response"
                raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
            await run.hold.pause()

    async def _of_others(
        self, stored: StoredSession[Identity], record: RefreshRecord
    ) -> RefreshOutcome[Identity] | None:
        """The outcome of another process's refresh; None while it is under way."""
        if (reason := end_reason_in(record)) is not None:
            expires_at = stored.session.expires_at
            self._party.sessions.end(stored.session.id, reason, expires_at=expires_at)
            return Ended(Code.SESSION_SIGNED_OUT, reason=reason)
        if stored.reference is None:
            newer = self._party.session_in(record, stored)
            return None if newer is None else self._refreshed(newer)
        if record.generation <= stored.session.generation:
            return None
        return await self._newer_row(stored)

    def _is_lost(self, stored: StoredSession[Identity], record: RefreshRecord) -> bool:
        """Whether the store has lost the row that a refresh wrote, for example in a failover.

        A row is written before its record becomes idle, and the older row's refresh token is used
        up. Of sessions in cookies the browser may have a newer one.
        """
        if stored.reference is None or not _has_expired(stored.session, self._clock):
            return False
        return record.generation > stored.session.generation and record.phase is Phase.IDLE

    async def _lost(self, stored: StoredSession[Identity]) -> Ended:
        await end(self._party, stored, "expired")
        explanation = "its store has lost the session that a refresh wrote"
        return Ended(Code.SESSION_EXPIRED, explanation, "expired")

    async def _newer_row(self, stored: StoredSession[Identity]) -> RefreshOutcome[Identity] | None:
        """The newer generation of `stored` in the store; None if there is none."""
        lookup = await self._party.backend.reread(stored)
        if lookup is None or lookup.ended is not None:
            return Ended(Code.SESSION_SIGNED_OUT, reason=None if lookup is None else lookup.ended)
        if lookup.stored.session.generation <= stored.session.generation:
            return None
        return self._refreshed(lookup.stored)

    async def _held(self, run: _Run[Identity], record: RefreshRecord) -> RefreshOutcome[Identity]:
        """Make the next session in this process, as the owner of the record."""
        try:
            known = self._known(run.stored)
            if not isinstance(known, Ended) and not self._party.has_shared_records:
                known = await self._newer_row(run.stored)
            if isinstance(known, Ended | Refreshed):
                await run.hold.release(record.data)
                return known
            return await self._stored(run, await self._made(run, record))
        except OIDCError as error:
            if _is_final(error):
                return await self._refused(run.stored, error)
            await self._released(run, record)
            raise
        except Exception:
            await self._released(run, record)
            raise

    async def _released(self, run: _Run[Identity], record: RefreshRecord) -> None:
        """Release the record with its response, even one that this process cannot read."""
        await run.hold.release(record.data if run.answer is None else run.answer.encode())

    async def _made(self, run: _Run[Identity], record: RefreshRecord) -> StoredSession[Identity]:
        """The next session, from a token response or `run.make`. It is not stored yet."""
        session = run.stored.session
        run.answer = self._party.sessions.answer(session)
        if run.answer is None and record.phase is Phase.ANSWERED:
            run.answer = TokenAnswer.decode(record.generation, record.data)
        if run.answer is None:
            run.is_new = True
            if run.make is not None:
                return await _made_by(run.make, run)
            run.answer = await self._presented(run)
        if run.answer.api:
            return with_new_refresh_token(self._party, run.stored, run.answer)
        return await apply_refresh(self._party, run.stored, await self._verified(run, run.answer))

    async def _presented(
        self, run: _Run[Identity], api: DownstreamAPI | None = None
    ) -> TokenAnswer:
        """Send the refresh token and store the token endpoint's response."""
        party, session = self._party, run.stored.session
        try:
            response = await self._response(run, api)
        except NonceRequired:
            if session.tokens.dpop_key is None:
                raise
            # The provider has only checked the proof, and this process may be shutting down by now.
            run.require_running()
            response = await self._response(run, api)
        name = "" if api is None else api.key(api.grant)
        answer = TokenAnswer(session.generation, response, self._clock.now(), api=name)
        party.sessions.keep_answer(session, answer)
        if party.has_shared_records:
            await run.hold.answered(answer.encode())
        return answer

    async def _response(self, run: _Run[Identity], api: DownstreamAPI | None) -> TokenResponse:
        party, tokens = self._party, run.stored.session.tokens

        def require_own_record() -> None:
            if run.hold.age > party.policy.provider_timeout:
                # This process was paused, so another one may own the record by now.
                raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, "this process was paused")

        return await party.provider.refresh(
            tokens.refresh_token or "",
            key=tokens.proof_key(),
            target=None if api is None else api.parameters(),
            before_sending=require_own_record,
        )

    async def _verified(self, run: _Run[Identity], answer: TokenAnswer) -> TokenAnswer:
        """The token answer with its ID token verified, once: the provider may withdraw the key."""
        if answer.response.id_token is None or answer.verified is not None:
            return answer
        try:
            verified = await self._party.provider.verify(answer.response.id_token)
        except Undecided as error:
            age = self._clock.now() - answer.received_at
            if error.is_by_new_keys and age >= UNVERIFIED_SECONDS:
                explanation = "none of the provider's keys verifies the ID token"
                raise ProtocolViolation(Code.JWS_SIGNATURE, explanation) from error
            raise
        answer = replace(answer, verified=verified)
        self._party.sessions.keep_answer(run.stored.session, answer)
        return answer

    async def _stored(
        self, run: _Run[Identity], made: StoredSession[Identity]
    ) -> RefreshOutcome[Identity]:
        """Store the next session. A session that ended in the meantime stays ended."""
        party, session = self._party, made.session
        made = party.sessions.newest(made)  # it may have been used while it was made
        if party.sessions.ended(session) or not await party.backend.replace(made):
            newer = await self._newer_row(run.stored) if made.reference is not None else None
            return newer if isinstance(newer, Refreshed) else await self._too_late(made)
        reason = await self._ended_by_former_sid(run.stored, made)
        if reason is None and not await run.hold.done(
            party.codec.encode(made.session) if made.reference is None else b""
        ):
            reason = end_reason_in(await party.records.look(session.id))
        if (reason := reason or party.sessions.ended(session)) is not None:
            await end(party, made, reason)  # it ended while it was being stored
            return await self._too_late(made)
        party.announce(EventName.SESSION_REFRESHED, sub=session.sub, session_id=session.id)
        return self._refreshed(made, is_new=run.is_new)

    async def _ended_by_former_sid(
        self, stored: StoredSession[Identity], made: StoredSession[Identity]
    ) -> EndReason | None:
        """Why a revocation of the former `sid` of `stored`, which `made` no longer has, ends it."""
        if made.session.sid == stored.session.sid:
            return None
        return await self._party.backend.ended_by(stored.session)

    async def _too_late(self, made: StoredSession[Identity]) -> Ended:
        """Best effort: revoke the tokens of a session that will not be used."""
        with suppress(OIDCError, TimeoutError):
            async with asyncio.timeout(TOKEN_REVOCATION_SECONDS):
                await revoke_refresh_token(self._party, made.session)
        return Ended(Code.SESSION_SIGNED_OUT, "it ended while it was being refreshed")

    async def _refused(
        self, stored: StoredSession[Identity], error: OIDCError
    ) -> RefreshOutcome[Identity]:
        """The end of the session, unless another process has refreshed it with the same token."""
        newer: RefreshOutcome[Identity] | None = None
        # An unavailable store or record counts as having no later refresh.
        with suppress(SessionError):
            record = await self._party.records.look(stored.session.id)
            newer = await self._of_others(stored, record)
        if newer is None and stored.reference is not None:
            with suppress(SessionError):
                newer = await self._newer_row(stored)
        if newer is not None:
            return newer
        reason = end_reason(error.code)
        await end(self._party, stored, reason)
        return Ended(error.code, error.message, reason)

    def _refreshed(
        self, stored: StoredSession[Identity], *, is_new: bool = False
    ) -> RefreshOutcome[Identity]:
        if (reason := self._party.sessions.ended(stored.session)) is not None:
            return Ended(Code.SESSION_SIGNED_OUT, reason=reason)
        self._party.sessions.keep(stored)
        return Refreshed(stored, is_new)

    def _not_now(self, session: OIDCSession[Identity], explanation: str) -> Postponed:
        retry_at = self._clock.now() + RETRY_SECONDS
        return Postponed(session.generation, RETRY_SECONDS, retry_at, explanation)

    def _postponed(self, session: OIDCSession[Identity], error: OIDCError) -> Postponed:
        """Announce a refresh without a result, and set the pause before the next attempt."""
        now, before = self._clock.now(), self._party.sessions.postponed(session)
        pause = FIRST_BACKOFF if before is None else min(2 * before.pause, LONGEST_BACKOFF)
        refusals = 0
        if isinstance(error, RefusedRequest):
            refusals = 1 if before is None else before.refusals + 1
        postponed = Postponed(session.generation, pause, now + pause, error.message, refusals)
        self._party.sessions.postpone(session, postponed)
        event = refusal(EventName.SESSION_REFRESH_POSTPONED, error, now)
        self._party.announcer(replace(event, sub=session.sub, session_id=session.id))
        return replace(postponed, is_announced=True)


async def _made_by(make: _Making[Identity], run: _Run[Identity]) -> StoredSession[Identity]:
    """What `make` returns; raises _NotMade: its error says nothing about the session."""
    try:
        return await make(run)
    except Exception as error:
        raise _NotMade from error


def _of_caller(
    outcome: RefreshOutcome[Identity], stored: StoredSession[Identity], *, is_new: bool
) -> RefreshOutcome[Identity]:
    """`outcome` with the reference of `stored`: another caller may have had no cookie."""
    if not isinstance(outcome, Refreshed):
        return outcome
    own = StoredSession(outcome.stored.session, stored.reference)
    return Refreshed(own, outcome.is_new and is_new)


def end_reason(code: Code) -> EndReason:
    """The reason of a session's end by an error with `code`.

    A callback of the application ends a session with a SessionError.
    """
    if code in (Code.SESSION_EXPIRED, Code.SESSION_COOKIE_TOO_LARGE):
        return "expired"
    if code is Code.SESSION_SIGNED_OUT:
        return "signed_out"
    return "revoked" if code.startswith("session.") else "ended_by_provider"


def _has_expired(session: OIDCSession[Identity], clock: Clock) -> bool:
    return session.tokens.expires_at is not None and clock.now() >= session.tokens.expires_at


def _is_final(error: OIDCError) -> bool:
    """Whether the error ends the session, and is not merely temporary."""
    if isinstance(error, SessionError):
        return not error.is_outage
    if isinstance(error, ProtocolViolation):
        # A key may sign before it is published (OpenID Connect Core 10.1.1). A clock that is behind
        # does not end the session: a process with a correct clock accepts the response.
        return error.code is not Code.JWS_KEY_MISSING and not error.is_early
    return isinstance(error, RefusedGrant)
