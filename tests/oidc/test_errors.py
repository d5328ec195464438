"""Codes are stable, the table over them is total, and a class says who must act."""

from fastapi_oidc.codes import ANSWERS
from fastapi_oidc.errors import Code, SessionError


def test_every_code_has_an_answer() -> None:
    assert set(ANSWERS) == set(Code)
    assert all(answer.text.endswith(".") for answer in ANSWERS.values())


def test_codes_are_written_like_their_names() -> None:
    for code in Code:
        assert code.name == code.value.replace(".", "_").upper()


def test_an_error_tells_its_code_and_the_browser_less() -> None:
    error = SessionError(Code.SESSION_REQUIRED, "no cookie", path="/me")
    assert str(error) == "session.required: no cookie"
    assert error.details == {"path": "/me"}
    assert (error.status, error.public_text) == (401, "Sign in to continue.")
