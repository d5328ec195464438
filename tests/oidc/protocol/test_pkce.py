from __future__ import annotations

import pytest

from fastapi_oidc.protocol.authorization import code_challenge


def test_the_example_of_rfc_7636_appendix_b() -> None:
    assert (
        code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


@pytest.mark.parametrize("verifier", ["a" * 43, "a" * 128, "-._~" * 20])
def test_a_verifier_of_allowed_length_and_characters(verifier: str) -> None:
    assert len(code_challenge(verifier)) == 43


@pytest.mark.parametrize(
    "verifier", ["", "a" * 42, "a" * 129, "a" * 42 + "+", "a" * 42 + "é", "a" * 43 + "\n"]
)
def test_any_other_verifier_is_refused(verifier: str) -> None:
    with pytest.raises(ValueError, match="7636"):
        code_challenge(verifier)
