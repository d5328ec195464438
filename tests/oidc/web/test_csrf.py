"""CSRF tokens: new in every answer, and only of one's own session."""

from __future__ import annotations

from hashlib import sha256

import pytest
from itsdangerous import Signer

from fastapi_oidc import Code, SessionError
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.web.csrf import CSRFTokens
from tests.oidc.session.examples import a_session

OLD, NEW = b"o" * 32, b"n" * 32
TOKENS = CSRFTokens([NEW, OLD])
SESSION = a_session().model_copy(update={"id": "one"})
ANOTHER = SESSION.model_copy(update={"id": "two"})


def accepted(token: str | None) -> bool:
    try:
        TOKENS.require(SESSION, token)
    except SessionError as error:
        return error.code is not Code.SESSION_CSRF
    return True


def test_no_two_tokens_are_alike_and_each_is_accepted() -> None:
    tokens = {TOKENS.token(SESSION) for _ in range(20)}
    assert len(tokens) == 20
    assert all(accepted(token) for token in tokens)


def test_no_part_of_a_token_stays_the_same() -> None:
    one, other = (base64url.decode(TOKENS.token(SESSION)) for _ in range(2))
    assert one[:32] != other[:32]
    assert one[32:] != other[32:]


def test_a_rotated_key_still_verifies() -> None:
    assert accepted(CSRFTokens([OLD]).token(SESSION))
    assert not accepted(CSRFTokens([b"x" * 32]).token(SESSION))


def test_a_token_without_mask_is_accepted_when_it_is_the_sessions() -> None:
    """Of a page that version 0.1.0 made."""
    signer = Signer(NEW, "fastapi_oidc.csrf", digest_method=sha256)
    assert accepted(signer.get_signature("one").decode())
    assert not accepted(signer.get_signature("two").decode())


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "x",
        "é" * 43,
        "A" * 43,
        "A" * 86,
        "A" * 87,
        "=" * 86,
        "\udcff" * 86,
        TOKENS.token(ANOTHER),
        TOKENS.token(SESSION)[:-1],
        TOKENS.token(SESSION) + "A",
        TOKENS.token(SESSION).swapcase(),
    ],
    ids=map(str, range(13)),
)
def test_anything_else_is_refused(token: str | None) -> None:
    assert not accepted(token)
