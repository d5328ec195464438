"""No check of a text that somebody else wrote takes longer than its length explains."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from fastapi_oidc.protocol.authorization import (
    AuthorizationRefused,
    code_challenge,
    pushed_request_uri,
)
from fastapi_oidc.protocol.error_text import cleaned, shown, without
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.refusal import refusal
from fastapi_oidc.protocol.return_path import same_origin_path
from fastapi_oidc.protocol.tenants import tenant_of
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.protocol.urls import fault_of_url

CHECKS: dict[str, Callable[[str], object]] = {
    "cleaned": cleaned,
    "shown": shown,
    "without": lambda text: without(text, ["refresh", text[:7]]),
    "refused login": lambda text: AuthorizationRefused(text, text, (text,)),
    "refused grant": lambda text: refusal(
        {"error": "invalid_request", "error_description": text}, 400, url="https://op.test"
    ),
    "token": lambda text: TokenResponse.parse(
        {"access_token": text, "token_type": "Bearer", "expires_in": text, "scope": text}
    ),
    "pushed": lambda text: pushed_request_uri({"request_uri": text}),
    "compact": CompactJWS.parse,
    "challenge": code_challenge,
    "return path": lambda text: same_origin_path("/" + text, default="/"),
    "tenant": lambda text: tenant_of({"tid": text}),
    "url": lambda text: fault_of_url("https://" + text, allow_insecure_http=False),
}
PIECES = ["refresh token ", "a", "a.", "a-", "%0", "[", ":", "/../", "\\", " ", "0"]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_long_text_is_checked_in_no_time(check: Callable[[str], object]) -> None:
    """A pattern that backtracks needs seconds for 400,000 characters, a linear one milliseconds."""
    for piece in PIECES:
        text = piece * (400_000 // len(piece))
        began = time.process_time()
        with suppress(Exception):
            check(text)
        assert time.process_time() - began < 0.5, piece
