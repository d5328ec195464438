"""One refresh per session and generation, shared by every request that needs it.

The token endpoint gives some refresh tokens once. So a refresh belongs to no request and is never
cancelled, what the endpoint answered is kept until its successor is, and everything after it is
done again from that answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Generic, TypeAlias

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.flows.answers import Answers
from fastapi_oidc.flows.decided import Decided
from fastapi_oidc.flows.events import EventName
from fastapi_oidc.flows.refresh import successor
from fastapi_oidc.flows.refresh_outcomes import (
    Outcome,
    Postponed,
    Refused,
    Renewed,
    Unmade,
    is_final,
    name_of,
)
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import PATIENCE, revoked_at_provider
from fastapi_oidc.flows.standing import newest_anywhere
from fastapi_oidc.once import Closed, Closing, Flights, Turns
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, OIDCSession

IN_FLIGHT: Final = 32
"""Refreshes that one process has under way at the most; more wait for their turn, unsent."""

LONGEST_WAIT: Final = 30.0
"""Seconds that a request waits for the turn of its refresh; the refresh itself goes on."""


Make: TypeAlias = Callable[[Kept[Identity]], Awaitable[Kept[Identity]]]


class Refresher(Generic[Identity]):
    """Renews sessions."""

    def __init__(self, party: RelyingParty[Identity]) -> None:
        self._party, self._clock = party, party.clock
        self._turns = Turns(IN_FLIGHT)
        self._flights: Flights[str, Outcome[Identity]] = Flights()
        self._begun: dict[str, asyncio.Event] = {}
        self._closing = Closing()
        self._answers = Answers(party)
        self._decisions = Decided(party)

    async def renew(self, kept: Kept[Identity]) -> Outcome[Identity]:
        """What becomes of `kept`; the provider is asked once, however many wait or disconnect.

        Raises SessionError when the session's store cannot be asked or cannot keep the successor.
        """
        while True:
            known = self._decisions.of(kept)
            if known is not None:
                return known
            try:
                return await self._outcome(kept, self._by_refresh_token)
            except Unmade:
                continue  # a run that was under way, in which nothing was refreshed

    async def aclose(self) -> None:
        """Waits for the answers to token requests that were sent; no other one that was asked for
        before the end of it is sent any more.

        Their refresh tokens are used up, and what the provider answers would be lost.
        """
        policy = self._party.policy
        with self._closing.closed():
            await self._flights.ended(policy.provider_timeout + policy.callback_timeout)
        await self._answers.aclose()

    async def succeed(self, kept: Kept[Identity], make: Make[Identity]) -> Outcome[Identity]:
        """What becomes of `kept` when `make` makes its successor, in the place of a refresh.

        A refresh that is under way comes first; `make` is given the newest state. What it raises is
        raised here, and the session goes on as it was.
        """
        made: list[Kept[Identity]] = []
        failures: list[Exception] = []

        async def noted(current: Kept[Identity]) -> Kept[Identity]:
            try:
                made.append(await make(current))
            except Exception as error:
                failures.append(error)
                raise Unmade from error
            return made[-1]

        while True:
            kept = self._party.register.newest(kept)
            try:
                outcome = await self._outcome(kept, noted)
            except Unmade:
                if failures:
                    raise failures[0] from None
                continue  # another one's failure
            if made or not isinstance(outcome, Renewed):
                return outcome
            kept = outcome.kept

    async def has_presented(self, kept: Kept[Identity]) -> bool:
        """Whether the refresh token was presented, here or elsewhere, without a successor yet."""
        return await self._answers.are_awaited(kept.session)

    def refused(self, kept: Kept[Identity]) -> bool:
        """Whether it was decided here that the session of `kept` does not go on."""
        return isinstance(self._decisions.of(self._party.register.newest(kept)), Refused)

    async def _outcome(self, kept: Kept[Identity], make: Make[Identity]) -> Outcome[Identity]:
        """The outcome of the run under way, or of one begun here; not waited for without end."""
        name = name_of(kept.session)

        def begin() -> Coroutine[object, object, Outcome[Identity]]:
            self._begun[name] = asyncio.Event()
            return self._run(name, kept, self._closing.unless_closed(make))

        run = self._flights.begin(name, begin)
        policy = self._party.policy
        # An eager task (`asyncio.eager_task_factory`) may have ended where it was begun.
        if run.done() or await _happens(self._begun[name].wait(), LONGEST_WAIT):
            await asyncio.wait([run], timeout=policy.provider_timeout + policy.callback_timeout)
        if run.done():
            return run.result()
        return Postponed(1, self._clock.now() + 1, "it is still under way")

    async def _run(
        self, name: str, kept: Kept[Identity], make: Make[Identity]
    ) -> Outcome[Identity]:
        try:
            return await self._decided(name, kept, make)
        except Closed:
            return Postponed(1, self._clock.now() + 1, "this process ends")
        finally:
            self._begun.pop(name).set()

    @asynccontextmanager
    async def _turn(self, begun: asyncio.Event) -> AsyncIterator[None]:
        async with self._turns.taken():
            begun.set()
            yield

    async def _decided(
        self, name: str, kept: Kept[Identity], make: Make[Identity]
    ) -> Outcome[Identity]:
        try:
            renewed = await self._once(name, kept, make)
        except OIDCError as error:
            if is_final(error):
                return await self._refused(name, kept, error)
            if isinstance(error, SessionError) and error.code is not Code.SESSION_LOCK_UNAVAILABLE:
                raise
            return self._decisions.postpone(kept.session, error)
        if self._party.register.ended(renewed.session):
            return Refused(Code.SESSION_SIGNED_OUT)
        return self._decisions.renew(kept, renewed)

    async def _once(self, name: str, kept: Kept[Identity], make: Make[Identity]) -> Kept[Identity]:
        # A refresh token is presented only when what is needed afterwards is at hand.
        await self._party.provider.prepare_refresh()
        turn = partial(self._turn, self._begun[name])
        if self._party.shared is None:
            async with turn():
                return await self._saved(name, kept, make)
        made = await self._party.shared.once(name, lambda: self._saved(name, kept, make), turn)
        return Kept(made.session, kept.reference)

    async def _saved(self, name: str, kept: Kept[Identity], make: Make[Identity]) -> Kept[Identity]:
        """The successor, kept, unless another process has made it already."""
        current = await self._still_kept(kept)
        if current.session.generation > kept.session.generation:
            return current
        made = self._party.register.seen_last(await make(current))
        if not await self._replaced(made):
            await self._give_back(made.session)
            raise SessionError(Code.SESSION_SIGNED_OUT, "it ended while it was refreshed")
        # From here on a sign-out finds the tokens that are to be revoked.
        self._party.register.keep(made)
        self._answers.forget(name)
        if self._party.shared is not None:
            await self._party.shared.done(name, made)
        session = made.session
        self._party.announce(EventName.SESSION_REFRESHED, sub=session.sub, session_id=session.id)
        return made

    async def _replaced(self, made: Kept[Identity]) -> bool:
        """Whether the successor is kept; not when the session ended before or meanwhile."""
        ended = self._party.register.ended
        if ended(made.session) or not await self._party.keeper.replace(made):
            return False
        reason = ended(made.session)
        if reason is not None:  # a store without `replace` may have set the row again
            await self._party.endings.end(self._party.keeper.previous(made), reason)
        return reason is None

    async def _still_kept(self, kept: Kept[Identity]) -> Kept[Identity]:
        """The newest that is known now; raises SessionError (session.signed_out) for nothing."""
        ended = self._party.register.ended(kept.session)
        found = None if ended else await self._party.keeper.reread(kept)
        if found is None or found.ended is not None:
            raise SessionError(Code.SESSION_SIGNED_OUT, "it is no longer kept")
        return await newest_anywhere(self._party, found.kept)

    async def _by_refresh_token(self, current: Kept[Identity]) -> Kept[Identity]:
        return await successor(self._party, current, await self._answers.to(current.session))

    async def _give_back(self, session: OIDCSession[Identity]) -> None:
        """Best effort: nobody is going to use these tokens."""
        with suppress(OIDCError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await revoked_at_provider(self._party, session)

    async def _refused(
        self, name: str, kept: Kept[Identity], error: OIDCError
    ) -> Outcome[Identity]:
        """The end of the session, unless another process refreshed it with the same token."""
        found = await self._party.keeper.reread(kept)
        self._answers.forget(name)
        if found and not found.ended and found.kept.session.generation > kept.session.generation:
            return self._decisions.renew(kept, found.kept)
        return self._decisions.refuse(kept.session, error)


async def _happens(waiting: Awaitable[object], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return False
    return True
