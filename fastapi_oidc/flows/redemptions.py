"""Each answer of the provider to a login is redeemed once, however often the browser brings it.

RFC 6749 4.1.2: a code must not be used more than once, and a provider that sees it again may take
back what it gave. A reload of a slow callback, or a page loaded twice, brings it again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from dataclasses import replace
from typing import Final, Generic, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.flows.outcomes import Failed, Refused, SignedIn
from fastapi_oidc.once import Expiring, Flights
from fastapi_oidc.session.model import Identity, LoginTransaction

REMEMBERED: Final = 60
"""Seconds for which the same callback gets the same answer."""

LIMIT: Final = 10_000
"""Answers remembered at the most."""

Outcome: TypeAlias = SignedIn[Identity] | Refused | Failed


class Redemptions(Generic[Identity]):
    """Runs each redemption once; it belongs to no request and is never cancelled.

    An error is remembered without its traceback, whose frames hold the code and all cookies.

    `patience` is how many seconds a callback waits as a whole.
    """

    def __init__(self, clock: Clock, patience: float) -> None:
        self._clock, self._patience = clock, patience
        self._flights: Flights[str, Outcome[Identity]] = Flights()
        self._outcomes: Expiring[str, Outcome[Identity]] = Expiring(clock, max_entries=LIMIT)

    async def once(
        self, name: str, redeem: Callable[[], Awaitable[Outcome[Identity]]]
    ) -> Outcome[Identity]:
        """The outcome of `redeem`, which ran for this callback or for the same one before.

        Raises ProviderError (provider.timeout) when it takes too long; a reload gets it then.
        """
        outcome = self._outcomes.get(name)
        if outcome is None:
            run = self._flights.begin(name, lambda: self._run(name, redeem))
            await asyncio.wait([run], timeout=self._patience)
            if not run.done():
                explanation = f"the sign-in took longer than {self._patience:g} seconds"
                raise ProviderError(Code.PROVIDER_TIMEOUT, explanation)
            outcome = run.result()
            if isinstance(outcome, SignedIn):
                outcome = self._outcomes.get(name, outcome)
        else:
            outcome = _without_frames(outcome)
        return self._told(name, outcome)

    async def aclose(self) -> None:
        """Waits for what is redeemed: its codes are used up."""
        await self._flights.ended(self._patience)

    def _run(
        self, name: str, redeem: Callable[[], Awaitable[Outcome[Identity]]]
    ) -> Coroutine[object, object, Outcome[Identity]]:
        async def run() -> Outcome[Identity]:
            outcome = await redeem()
            if isinstance(outcome, Refused) and outcome.may_be_retried:
                return outcome
            ends = self._clock.now() + REMEMBERED
            self._outcomes.set(name, _without_frames(outcome), ends=ends)
            return outcome

        return run()

    def _told(self, name: str, outcome: Outcome[Identity]) -> Outcome[Identity]:
        """`outcome`; the application hears of a login once, with the first answer."""
        if isinstance(outcome, SignedIn) and not outcome.replayed:
            again = replace(outcome, replayed=True)
            self._outcomes.set(name, again, ends=self._outcomes.ends(name))
        return outcome


def name_of(transaction: LoginTransaction) -> str:
    """Names one login, in words that a store may see."""
    return f"login.{hashlib.sha256(transaction.state.encode()).hexdigest()[:32]}"


def _without_frames(outcome: Outcome[Identity]) -> Outcome[Identity]:
    """`outcome` with an error that nobody has raised, or will.

    An exception of the application that cannot be copied is kept as it is.
    """
    if isinstance(outcome, SignedIn):
        return outcome
    try:
        error = copy(outcome.error)
        return replace(outcome, error=error)  # type: ignore[arg-type]  # of the same type
    except Exception:
        return outcome
