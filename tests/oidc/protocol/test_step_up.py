"""How recent and how strong an authentication must be, and how a client learns it (RFC 9470)."""

from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError
from fastapi_oidc.clock import Instant
from fastapi_oidc.protocol.access_token import StepUp, of_class, recent
from tests.oidc.protocol.examples import refused

NOW = 1_800_000_000
AT = Instant(NOW, drift=30)


ENOUGH: dict[StepUp, list[tuple[int | None, str | None]]] = {
    recent(300): [(NOW - 300, None), (NOW - 329, None), (NOW + 30, None)],
    recent(0): [(NOW, None)],
    of_class(("mfa", "hwk")): [(None, "hwk")],
    StepUp(300, ("mfa",)): [(NOW, "mfa")],
}
TOO_LITTLE: dict[StepUp, list[tuple[int | None, str | None]]] = {
    recent(300): [(NOW - 330, None), (None, None), (NOW + 31, None)],
    recent(0): [(NOW - 30, None)],
    of_class(("mfa", "hwk")): [(None, "pwd"), (None, "mfa hwk"), (None, None)],
    StepUp(300, ("mfa",)): [(NOW, "pwd"), (NOW - 330, "mfa")],
}


@pytest.mark.parametrize("step_up", ENOUGH, ids=str)
def test_an_authentication_is_enough_or_not(step_up: StepUp) -> None:
    for auth_time, acr in ENOUGH[step_up]:
        assert step_up.is_met(auth_time, acr, AT), (auth_time, acr)
    for auth_time, acr in TOO_LITTLE[step_up]:
        assert not step_up.is_met(auth_time, acr, AT), (auth_time, acr)


@pytest.mark.parametrize(
    ("step_up", "challenge"),
    [
        (recent(5), 'Bearer error="insufficient_user_authentication", max_age="5"'),
        (
            of_class(("mfa", "hwk")),
            'Bearer error="insufficient_user_authentication", acr_values="mfa hwk"',
        ),
    ],
)
def test_a_challenge_names_what_is_required(step_up: StepUp, challenge: str) -> None:
    assert step_up.challenge() == challenge


@pytest.mark.parametrize("seconds", [-1, True, 1.5, "300", None])
def test_an_age_is_a_whole_number_of_seconds(seconds: Any) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        recent(seconds)


@pytest.mark.parametrize("values", [(), ("",), ("a b",), ('a"',), ("a\\",), ("é",), ("a" * 256,)])
def test_a_class_fits_into_a_challenge(values: tuple[str, ...]) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        of_class(values)
