"""How recent and how strong an authentication must be, and how a client learns it (RFC 9470)."""

from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError
from fastapi_oidc.clock import Instant
from fastapi_oidc.protocol.step_up import StepUp, of_class, recent
from tests.oidc.protocol.examples import refused

NOW = 1_800_000_000
AT = Instant(NOW, drift=30)


@pytest.mark.parametrize(
    ("step_up", "auth_time", "acr", "is_met"),
    [
        (recent(300), NOW - 300, None, True),
        (recent(300), NOW - 329, None, True),
        (recent(300), NOW - 330, None, False),
        (recent(300), None, None, False),
        (recent(300), NOW + 30, None, True),
        (recent(300), NOW + 31, None, False),
        (recent(0), NOW, None, True),
        (recent(0), NOW - 30, None, False),
        (of_class(("mfa", "hwk")), None, "hwk", True),
        (of_class(("mfa", "hwk")), None, "pwd", False),
        (of_class(("mfa", "hwk")), None, "mfa hwk", False),
        (of_class(("mfa", "hwk")), None, None, False),
        (StepUp(300, ("mfa",)), NOW, "pwd", False),
        (StepUp(300, ("mfa",)), NOW - 330, "mfa", False),
        (StepUp(300, ("mfa",)), NOW, "mfa", True),
    ],
)
def test_an_authentication_is_enough_or_not(
    step_up: StepUp, auth_time: int | None, acr: str | None, is_met: bool
) -> None:
    assert step_up.is_met(auth_time, acr, AT) is is_met


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
