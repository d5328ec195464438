"""What is remembered of a refused callback: the answer, and nothing that it was made of."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest

from fastapi_oidc import Clock, Code, ProtocolViolation, ProviderError
from fastapi_oidc.flows.outcomes import Failed, Refused
from fastapi_oidc.flows.redemptions import Outcome, Redemptions
from tests.oidc.interleaving import PATIENCE, Gate
from tests.oidc.session.examples import User
from tests.oidc.world import Time


class Secret:
    """Something that a frame holds: a code, cookies."""


class OfTheApplication(Exception):
    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Redeeming:
    """A redemption that fails with an error, and what its frames hold."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.held: list[weakref.ref[Secret]] = []
        self.times = 0

    async def __call__(self) -> Outcome[User]:
        self.times += 1
        try:
            self._fail()
        except ProtocolViolation as error:
            return Refused(error, silent=False)
        except Exception as error:
            return Failed(error)
        raise AssertionError

    def _fail(self) -> None:
        secret = Secret()
        self.held.append(weakref.ref(secret))
        error, self._error = self._error, Exception()
        try:
            raise KeyError from None
        except KeyError as cause:
            raise error from cause

    def is_held(self) -> bool:
        gc.collect()
        return any(secret() is not None for secret in self.held)


async def raised(outcome: Outcome[User], held: list[weakref.ref[Secret]]) -> str:
    """Raises the error as the web layer does, in a frame that holds the request."""
    request = Secret()
    held.append(weakref.ref(request))
    assert isinstance(outcome, Refused | Failed)
    with pytest.raises(type(outcome.error)) as caught:
        raise outcome.error
    return str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ProtocolViolation(Code.TOKEN_INVALID_GRANT, "why", url="https://op.test/token"),
        lambda: PermissionError("not for you"),
    ],
)
async def test_a_refused_callback_is_remembered_without_what_its_frames_hold(
    make: Callable[[], Exception],
) -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    redeeming = Redeeming(make())
    told = [await raised(await redemptions.once("one", redeeming), redeeming.held)]
    assert not redeeming.is_held()
    for _ in range(2):
        told.append(await raised(await redemptions.once("one", redeeming), redeeming.held))
        assert not redeeming.is_held()
    assert told == [str(make())] * 3
    assert redeeming.times == 1


async def test_a_refusal_that_comes_again_says_the_same() -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    violation = ProtocolViolation(Code.TOKEN_INVALID_GRANT, "why", url="https://op.test/token")
    violation.is_announced = True
    redeeming = Redeeming(violation)
    first, second = [await redemptions.once("one", redeeming) for _ in range(2)]
    assert isinstance(first, Refused)
    assert first.error is violation
    assert isinstance(second, Refused)
    assert second.error is not violation
    assert vars(second.error) == vars(violation)


async def test_the_first_answer_has_the_traceback_for_the_log() -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    outcome = await redemptions.once("one", Redeeming(PermissionError("not for you")))
    assert isinstance(outcome, Failed)
    assert outcome.error.__traceback__ is not None


async def test_an_error_that_cannot_be_copied_is_raised_again_as_it_is() -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    redeeming = Redeeming(OfTheApplication(reason="not for you"))
    outcomes = [await redemptions.once("one", redeeming) for _ in range(2)]
    told = [await raised(outcome, []) for outcome in outcomes]
    assert told == ["not for you"] * 2


async def test_one_that_hangs_does_not_hold_the_end_of_the_process_up() -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 0)
    gate = Gate()

    async def hanging() -> Outcome[User]:
        await gate.passed()
        return Failed(PermissionError("not for you"))

    with pytest.raises(ProviderError) as caught:
        await redemptions.once("one", hanging)
    assert caught.value.code is Code.PROVIDER_TIMEOUT
    async with asyncio.timeout(PATIENCE):
        await redemptions.aclose()
    gate.opened.set()
