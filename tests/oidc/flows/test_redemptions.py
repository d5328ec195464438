"""What is remembered of a refused callback: the answer, and nothing that it was made of."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from fastapi_oidc import Clock, Code, ProtocolViolation, ProviderError
from fastapi_oidc.flows import redemptions as redeeming_once
from fastapi_oidc.flows.outcomes import Failed, Refused, SignedIn
from fastapi_oidc.flows.redemptions import Outcome, Redemptions
from tests.oidc.interleaving import PATIENCE, Gate
from tests.oidc.session.examples import User, a_session
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


async def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redeeming_once, "LIMIT", 1)
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    first, second = [Redeeming(PermissionError("not for you")) for _ in range(2)]
    for name, redeeming in (("one", first), ("two", second), ("two", second), ("one", first)):
        await redemptions.once(name, redeeming)
    assert (first.times, second.times) == (2, 1)


def signed_in(path: str) -> Callable[[], Awaitable[Outcome[User]]]:
    async def redeem() -> Outcome[User]:
        return SignedIn(a_session(), path)

    return redeem


async def test_callbacks_of_two_logins_at_once_are_redeemed_each() -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    outcomes = await asyncio.gather(
        *(redemptions.once(path, signed_in(path)) for path in ("/one", "/two"))
    )
    assert outcomes == [SignedIn(a_session(), "/one"), SignedIn(a_session(), "/two")]


async def test_of_callbacks_of_one_login_at_once_the_first_is_told_of_it() -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    outcomes = [redemptions.once("one", signed_in("/")) for _ in range(2)]
    outcomes.append(redemptions.once("one", signed_in("/never")))
    first, second, third = await asyncio.gather(*outcomes)
    assert first == SignedIn(a_session(), "/")
    assert second == third == SignedIn(a_session(), "/", replayed=True)
    assert await redemptions.once("one", signed_in("/never")) == second


async def test_an_answer_is_remembered_for_a_minute_from_its_end() -> None:
    time = Time()
    redemptions: Redemptions[User] = Redemptions(Clock(read=time), 20)
    await redemptions.once("one", signed_in("/"))
    for seconds, path in ((59, "/"), (1, "/anew")):
        time.advance(seconds)
        outcome = await redemptions.once("one", signed_in("/anew"))
        assert isinstance(outcome, SignedIn)
        assert outcome.return_to == path


async def test_what_cannot_be_remembered_is_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redeeming_once, "LIMIT", 0)
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    assert await redemptions.once("one", signed_in("/")) == SignedIn(a_session(), "/")


async def test_a_refusal_that_may_be_retried_is_not_remembered() -> None:
    redemptions: Redemptions[User] = Redemptions(Clock(read=Time()), 20)
    refused = Refused(ProviderError(Code.PROVIDER_UNREACHABLE), silent=False, may_be_retried=True)

    async def refusing() -> Outcome[User]:
        return refused

    assert await redemptions.once("one", refusing) is refused
    assert await redemptions.once("one", signed_in("/")) == SignedIn(a_session(), "/")
