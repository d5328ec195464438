"""Whatever stands in an option by mistake is a ConfigurationError, and does not get into a log."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import ConfigurationError, OIDCSettings
from tests.oidc.settings.examples import options

MISPLACED = "misplaced-secret-of-somebody"
TEXTS = (
    "",
    MISPLACED,
    f" {MISPLACED} ",
    f'["{MISPLACED}"',
    f'["{MISPLACED}"]',
    f'{{"a": "{MISPLACED}"}}',
    "null",
    "1e999",
    "-1",
    "9" * 400,
    MISPLACED * 5000,
    f"a\n{MISPLACED}",
    f"https://user:{MISPLACED}@host/",
    "https://[::1",
    f"-----BEGIN PRIVATE KEY-----\n{MISPLACED}",
    f'{{"kty": "RSA", "n": "{MISPLACED}"}}',
)
OTHERS = (
    None,
    f"\x00{MISPLACED}",
    f"\ud800{MISPLACED}",
    [MISPLACED, None],
    {"a": [MISPLACED]},
    b"\xff" + MISPLACED.encode(),
    2**70,
    float("nan"),
    object(),
    ("x",) * 10_000,
)


def fault_of(chosen: dict[str, Any]) -> ConfigurationError | None:
    """What these options are refused for; any other error goes through."""
    try:
        OIDCSettings(**chosen)
    except ConfigurationError as error:
        return error
    return None


def require_quiet(chosen: dict[str, Any]) -> None:
    """Settings are made, or refused in words that do not repeat what was written."""
    error = fault_of(chosen)
    if error is not None:
        assert MISPLACED not in f"{error}{error.details}"
        assert len(str(error)) < 1000
        assert error.__suppress_context__ or error.__context__ is None


@pytest.mark.parametrize("option", sorted(OIDCSettings.model_fields))
def test_no_odd_value_is_another_error_or_shown(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = {name: value for name, value in options().items() if name != option}
    for value in (*TEXTS, *OTHERS):
        require_quiet({**rest, option: value})
    for text in TEXTS[:6]:
        monkeypatch.setenv(f"OIDC_{option.upper()}", text)
        require_quiet(rest)
