"""Code that is broken on purpose, and for each breakage a story in which it breaks a promise."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from fastapi_oidc.flows import refresh
from fastapi_oidc.flows.endings import Endings
from fastapi_oidc.grants import grants
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.session import rows
from tests.oidc.machine.ledger import Browser
from tests.oidc.machine.processes import RESOURCES, Fault, Mode
from tests.oidc.machine.world import MachineWorld, Story

MODES: Final = {
    "cookie": Mode("", processes=1),
    "cookie, store of endings": Mode(),
    "cookie, idle timeout, DPoP": Mode(idle_timeout=3600, dpop=True),
    "store": Mode("session_store"),
}
_COOKIE, _SHARED, _DPOP, _STORE = MODES.values()


class Breakage(NamedTuple):
    """How the code is broken, the mode and the story that show it, and what is found."""

    breakage: Callable[[pytest.MonkeyPatch], None]
    mode: Mode
    story: Story
    found: str


def finish_what_has_ended(patch: pytest.MonkeyPatch) -> None:
    finish = rows.finish
    patch.setattr(rows, "finish", lambda row, *rest: finish(replace(row, ended=None), *rest))


def refreshed_while_signing_out_elsewhere(world: MachineWorld, alice: Browser) -> None:
    old = world.copy(alice)
    world.fail(0, "provider", Fault.LATE)
    world.begin("me", old, 0)
    world.fail(1, "provider", Fault.DOWN, Fault.DOWN)  # so that the token is not revoked
    world.begin("logout", alice, 1)
    world.wait(50)
    world.begin("me", old, 0)


def lose_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows, "record", lambda row, *rest: row)


def killed_after_the_response(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "provider", Fault.LATE)
    world.begin("me", alice, 0)
    world.kill(0)
    world.wait(80)
    world.begin("me", alice, 1)


def ignore_leases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows, "LEASE_SECONDS", 0.0)
    patch.setattr(rows, "WATCH_SECONDS", 0.0)


def believe_any_age(patch: pytest.MonkeyPatch) -> None:
    take = rows.take
    patch.setattr(rows, "take", lambda row, age, *rest: take(row, max(age, 0.0), *rest))


def clock_that_is_set_back(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "take", Fault.REPLY_LOST)
    world.begin("me", alice, 0)
    world.kill(0)
    world.set_back_clock_of_stores(1500)


def asked_everywhere_at_once(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "token", Fault.LATE)
    for number in range(world.mode.processes):
        world.begin("me", alice, number)


def refresh_all_as_one(patch: pytest.MonkeyPatch) -> None:
    begin, outcomes = refresh._begin, list[Any]()

    async def first_outcome(run: Any) -> Any:
        outcomes.append(await begin(run))
        return outcomes[0]

    patch.setattr(refresh, "_begin", first_outcome)


def two_persons_at_once(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "token", Fault.LATE)
    for browser in world.browsers:
        world.begin("me", browser, 0)


def forget_what_ended_here(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Endings, "end_here", lambda *_, **__: None)


def signed_out_while_the_store_is_down(world: MachineWorld, alice: Browser) -> None:
    world.fail(1, "end", *[Fault.DOWN] * 99)
    old_cookie_after_signing_out(world, alice)


def old_cookie_after_signing_out(world: MachineWorld, alice: Browser) -> None:
    world.begin("me", alice, 0)  # with tokens for the next half minute
    old, last = world.copy(alice), world.mode.processes - 1
    world.fail(last, "provider", Fault.DOWN)  # so that the token is not revoked
    world.begin("logout", alice, last)
    world.begin("me", old, last)


def await_the_provider_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HTTPClient, "_end", lambda *_: 1e9)


def provider_that_is_silent(world: MachineWorld, alice: Browser) -> None:
    world.fail(1, "provider", Fault.LATE)
    world.begin("login", alice, 1)
    world.wait(700)


def one_token_for_all_apis(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "token_key", lambda session_id, api, actor: f"token:{session_id}/any")


def two_apis(world: MachineWorld, alice: Browser) -> None:
    for api in RESOURCES:
        world.begin(f"call {api}", alice, 0)


def one_token_for_all_persons(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "token_key", lambda id, api, actor: f"token:any/{api.key(api.grant)}")


def two_persons_at_one_api(world: MachineWorld, alice: Browser) -> None:
    for browser in world.browsers:
        world.begin("call mail", browser, 0)


def prove_with_another_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DPoPKey, "from_text", lambda text: DPoPKey.new())


def an_api_is_called(world: MachineWorld, alice: Browser) -> None:
    world.begin("call mail", alice, 1)


_AGAIN, _ACCEPTED, _REFRESHED = "presented again", "ended was accepted", "had ended was refreshed"
_OTHER_API = "a token for another"
_BREAKAGES: Final = [
    (finish_what_has_ended, _SHARED, refreshed_while_signing_out_elsewhere, _REFRESHED),
    (lose_answers, _SHARED, killed_after_the_response, "session was lost"),
    (ignore_leases, _SHARED, asked_everywhere_at_once, _AGAIN),
    (believe_any_age, _SHARED, clock_that_is_set_back, "although nothing fails"),
    (refresh_all_as_one, _SHARED, two_persons_at_once, "somebody else"),
    (forget_what_ended_here, _SHARED, signed_out_while_the_store_is_down, _ACCEPTED),
    (one_token_for_all_apis, _SHARED, two_apis, _OTHER_API),
    (one_token_for_all_persons, _SHARED, two_persons_at_one_api, "token of somebody else"),
    (prove_with_another_key, _DPOP, an_api_is_called, "proof by another key"),
    (await_the_provider_for_ever, _SHARED, provider_that_is_silent, "no answer after"),
]
BREAKAGES: Final = {each[0].__name__.replace("_", " "): Breakage(*each) for each in _BREAKAGES}
