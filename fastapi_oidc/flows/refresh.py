"""One refresh for each session and generation, shared by all requests and processes.

A provider may accept a refresh token only once. So a refresh does not belong to a request and is
never cancelled. The session's row says which attempt presents the token, and has the response until
the next generation is stored (`docs/decisions/017-one-row-for-each-session.md`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fastapi_oidc.concurrency import TimeLimit
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import Outcome, Postponed, RelyingParty
from fastapi_oidc.flows.revocation import discard, end_reason
from fastapi_oidc.flows.sessions import Found, Live, Over, Prepared
from fastapi_oidc.flows.token_sessions import fold
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.protocol.refusal import RefusedGrant, RefusedRequest
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session import revocations, rows
from fastapi_oidc.session.cells import Turn
from fastapi_oidc.session.model import AnySession

QUEUE_SECONDS: Final = 30.0
"""Seconds that a request waits for other refreshes, beside its own. That continues later."""

VALID_TOKEN_PATIENCE: Final = rows.WATCH_SECONDS + 1.5
"""Seconds that a refresh waits for the same refresh in another process, which may have died, while
the access token is valid.
"""

EXPIRED_TOKEN_PATIENCE: Final = rows.LEASE_SECONDS + 3.0
"""The same after the access token has expired: a dead process has lost its lease by then."""

REFUSALS_BEFORE_END: Final = 4
"""Consecutive refusals of a refresh token, for a reason that RFC 6749 5.2 does not name, after
which a session without a valid access token ends; the first and last are 35 seconds apart.
"""

Make: TypeAlias = Callable[[Live], Awaitable[Prepared]]
Serves: TypeAlias = Callable[[AnySession], bool]


class _NotMade(Exception):
    """The work of one caller failed with the cause of this error; the session is unchanged."""


@dataclass(slots=True, eq=False)
class _Run:
    """One attempt to bring `live` to its next generation.

    With `make` the session comes from there and not from the token endpoint. With `api` the refresh
    token gets a token for that API. `settled`: there is an outcome, or the store has not taken it
    at once. `is_new`: the provider has issued tokens for it, or `make` has made the session.
    `is_made`: that is the outcome; without it the outcome is of an earlier refresh, or of a token
    request for another API.
    """

    party: RelyingParty
    live: Live
    make: Make | None = None
    api: DownstreamAPI | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    answer: rows.TokenAnswer | None = None
    is_new: bool = False
    is_made: bool = False


async def refresh(
    party: RelyingParty, live: Live, serves: Serves = lambda session: True
) -> Outcome:
    """The outcome of refreshing `live`: one request to the provider for all waiting callers.

    A newer state of the session is the outcome if it `serves`; otherwise that state is refreshed.
    During a pause nothing is sent. A revocation that came meanwhile ends the session. Raises
    SessionError when the store fails.
    """
    return await _complete(_Run(party, live), serves)


async def replace_session(party: RelyingParty, live: Live, make: Make) -> Outcome:
    """The outcome of replacing `live` with the session from `make`, in place of a refresh.

    A refresh under way, or one with a stored response, is completed first; `make` gets the
    newest state. An exception of `make` is raised here and leaves the session unchanged.
    """
    return await _complete(_Run(party, live, make=make))


async def refresh_for(
    party: RelyingParty, live: Live, api: DownstreamAPI
) -> tuple[Outcome, rows.TokenAnswer | None]:
    """Get a token for `api` with the refresh token of `live` (RFC 8707 2.2).

    The result is the outcome for the session and the response with the token. The session keeps
    its access token. A refusal of the provider is raised here and does not end the session: the
    next refresh decides that.
    """
    run = _Run(party, live, api=api)
    outcome = await _complete(run)
    return outcome, run.answer


async def _complete(run: _Run, serves: Serves | None = None) -> Outcome:
    """The outcome of `run` itself, or of an attempt under way that `serves`."""
    while True:
        if serves and (postponed := run.party.refreshes.pause_of(run.live.session)):
            return postponed
        outcome = await _join(run)
        if isinstance(outcome, Live) and not (run.is_made or (serves and serves(outcome.session))):
            run.live, run.answer = outcome, None
        elif outcome is not None:
            return outcome


async def _join(run: _Run) -> Outcome | None:
    """The outcome of the attempt under way, or of `run`, in a limited time.

    None if the attempt of another caller concerned that caller alone.
    """
    party, live = run.party, run.live
    settings, refreshes = party.settings, party.refreshes
    task, current = refreshes.tasks.begin(live.session.id, run, lambda: _begin(run))
    if current is run:
        run.settled.clear()  # of an attempt before
    task.add_done_callback(lambda _: current.settled.set())
    if current is run and run.make is not None:
        # A login waits for its own result, because a reload of the callback gets it too.
        await asyncio.wait([task])
    with suppress(TimeoutError):
        limit = QUEUE_SECONDS + settings.provider_timeout + settings.callback_timeout
        async with TimeLimit(limit):
            await current.settled.wait()
    if not task.done():
        return refreshes.briefly(live.session, "it is still under way")
    try:
        outcome = task.result()
    except _NotMade as failed:
        if current is run and failed.__cause__ is not None:
            raise failed.__cause__ from None
        return None
    if current is run:
        return outcome
    match outcome:
        case Live():
            return _of(run, party.sessions.live(live.copy, outcome.seen, outcome.cookie))
        case Over(is_refused=True):
            return None
        case Postponed() if run.make is not None:  # which needs no refresh token
            return None
    return outcome


async def _of_another(run: _Run) -> Outcome:
    """The outcome of another attempt, which may be in another process."""
    return _of(run, await run.party.sessions.judge(run.live.copy))


def _of(run: _Run, found: Found) -> Outcome:
    """What was found for the copy that the caller has brought."""
    if not isinstance(found, Live):
        # The store does not know the session any more: of others it knows their end.
        return found or Over(run.live.copy, "expired", run.live.session)
    if found.session.generation < found.seen.row.generation:
        return run.party.refreshes.briefly(found.session, "another cookie has its tokens")
    return found


async def _begin(run: _Run) -> Outcome:
    session, refreshes = run.live.session, run.party.refreshes
    try:
        # Get the metadata and keys first: the refresh token may be sent only once.
        await run.party.provider.prepare_refresh()
        return await _take_turn(run)
    except OIDCError as error:
        if isinstance(error, SessionError) and error.code is not Code.SESSION_LOCK_UNAVAILABLE:
            raise
        return refreshes.postpone(session, error, run.party.announcer)


async def _take_turn(run: _Run) -> Outcome:
    """Make the next generation, or wait for the attempt that makes it."""
    party, live = run.party, run.live
    session, sessions = live.session, party.sessions
    base, key = sessions.base_of(live), rows.row_key(session.id)
    turn = Turn(sessions.cells, key, base, live.seen, tried=run.settled)
    patience = EXPIRED_TOKEN_PATIENCE if party.has_expired(session) else VALID_TOKEN_PATIENCE
    while True:
        async with party.refreshing.here():
            row = await turn.take()
            if turn.owns(row):
                return await _work(run, turn, row)
        if row.ended or row.generation > session.generation or row == rows.Row():
            return await _of_another(run)
        if turn.waited > patience:
            explanation = "another process refreshes the session and may still get a response"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
        await turn.pause()


async def _work(run: _Run, turn: Turn, row: rows.Row) -> Outcome:
    """Make the next generation in this process, as the owner of the row."""
    party, live = run.party, run.live
    try:
        async with turn.renewing():
            prepared = await _make(run, turn, row)
            made = party.sessions.row_of(prepared, live)
            row = await turn.finish(made, revocations.keys_of(prepared.session))
    except Exception as error:
        return await _fail(run, turn, error)
    session = prepared.session
    if row.content != made.content:
        # A sign-out during the refresh has not known these tokens.
        if row.ended and not row.keeps_grant:
            await discard(party, session, session.tokens.refresh_token)
        return await _of_another(run)
    # After a step-up the response sends another cookie.
    copy = live.copy._replace(epoch=max(live.copy.epoch, row.epoch))
    live = Live(session, turn.seen, copy, prepared.cookie)
    judged = copy._replace(keys=revocations.keys_of(session))
    # The store is not asked again: a failure would take the session from its browser.
    found = _of(run, await party.sessions.judged(judged, turn.seen, turn.seen.others, live))
    if not isinstance(found, Live):
        return found
    if party.clock.now() < session.expires_at:  # else its callers find that it is over
        name = EventName.SESSION_REFRESHED
        party.announcer.announce(name, sub=session.sub, session_id=session.id)
    run.is_made = run.is_new
    return found


async def _make(run: _Run, turn: Turn, row: rows.Row) -> Prepared:
    """The next generation, from a token response or `run.make`. It is not stored yet."""
    run.is_new = not row.answer
    if run.make is not None and run.is_new:
        return await run.make(run.live)
    if run.is_new:
        run.answer = own = await _present(run, turn)
        row = await turn.record(own)
        run.is_new = row.answer in (None, own)  # another attempt's may have been first
    run.answer = row.answer or run.answer  # without one, `finish` will find why
    assert run.answer is not None
    return await fold(run.party, run.live, run.answer)


async def _present(run: _Run, turn: Turn) -> rows.TokenAnswer:
    """Send the refresh token, and return the token endpoint's response."""
    tokens, api = run.live.session.tokens, run.api
    body = await run.party.provider.refresh(
        tokens.refresh_token or "",
        key=tokens.proof_key(),
        target=None if api is None else api.parameters(),
        before_sending=turn.require_lease,
    )
    return rows.TokenAnswer(run.party.clock.now(), body, "" if api is None else api.key(api.grant))


async def _fail(run: _Run, turn: Turn, error: Exception) -> Outcome:
    """Do the last step of an attempt that failed: end the session, or release its row."""
    # Such an error concerns the caller that began the attempt, and not the session.
    is_own = run.is_new and (run.make or run.api)
    if not is_own and isinstance(error, OIDCError) and _is_final(run, error):
        reason = end_reason(error.code)
        if isinstance(error, RefusedGrant | RefusedRequest):
            row = await turn.refuse(reason)
        else:
            row = await turn.end(reason)
            if row.ended:  # else another attempt has made the next generation of this answer
                await _discard(run, row)
        if row.ended:
            _advise_on_refusal(run, error)
            return Over(run.live.copy, row.ended, run.live.session, by=error)
        return await _of_another(run)
    forget = isinstance(error, ProviderError) and error.code is Code.TOKEN_MALFORMED
    turn.begin_last(lambda: _let_go(run, turn, forget=forget))
    if is_own:
        raise _NotMade from error
    raise error


def _advise_on_refusal(run: _Run, error: OIDCError) -> None:
    """Log what processes without a store cannot know: another one may have used the token."""
    if isinstance(error, RefusedGrant) and not run.party.sessions.endings.are_recorded:
        run.party.announcer.advise(
            "back_channel_logout_store",
            "the provider refused a refresh token. If the application has several processes, "
            "another one may have used it: give them a store that they share",
        )


async def _let_go(run: _Run, turn: Turn, *, forget: bool) -> rows.Row:
    """Release the row for the next attempt; there is none for a session that has ended."""
    row = await turn.release(forget=forget)
    if row.ended:
        await _discard(run, row)
    return row


async def _discard(run: _Run, row: rows.Row) -> None:
    """Best effort: revoke the refresh token in the response of a session that has ended."""
    if run.answer is not None and not row.keeps_grant:
        with suppress(OIDCError):
            refresh_token = TokenResponse.read(run.answer.body).refresh_token
            await discard(run.party, run.live.session, refresh_token)


def _is_final(run: _Run, error: OIDCError) -> bool:
    """Whether the error ends the session, and is not merely temporary."""
    if isinstance(error, SessionError):
        return not error.is_outage
    if isinstance(error, ProtocolViolation):
        # A process with a correct clock accepts the response.
        return not error.is_early
    if isinstance(error, RefusedRequest):
        refusals = run.party.refreshes.refusals_of(run.live.session) + 1
        return refusals >= REFUSALS_BEFORE_END and run.party.has_expired(run.live.session)
    return isinstance(error, RefusedGrant)
