from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.authorization import (
    AuthorizationCode,
    AuthorizationRefused,
    Parameters,
    response_state,
)
from tests.oidc.protocol.examples import ISSUER, Rules, breaking, changes, refused

ANSWER: Parameters = {
    "code": ["code-1"],
    "state": ["state-1"],
    "iss": [ISSUER],
    "session_state": ["abc.salt"],
    "unknown": ["1", "2"],
}
REFUSAL: Parameters = {
    "error": ["access_denied"],
    "error_description": ["No."],
    "state": ["state-1"],
    "iss": [ISSUER],
}


def parse(answer: Parameters, *, issuer_promised: bool = True) -> AuthorizationCode:
    return AuthorizationCode.parse(
        answer, state="state-1", issuer=ISSUER, issuer_promised=issuer_promised
    )


def test_the_unchanged_answer_is_accepted() -> None:
    code = parse(ANSWER)
    assert (code.value, code.session_state) == ("code-1", "abc.salt")
    assert "code-1" not in repr(code)


BROKEN: Rules = {
    Code.AUTHORIZATION_STATE_MISSING: changes("state", [], [""]),
    Code.AUTHORIZATION_STATE_MISMATCH: changes("state", ["state-2"], ["STATE-1"], ["\ud800é"]),
    Code.AUTHORIZATION_ISSUER_MISSING: changes("iss", []),
    Code.AUTHORIZATION_ISSUER_MISMATCH: [
        *changes("iss", [""], ["https://op.test"], ["https://evil.test/"])
    ],
    Code.AUTHORIZATION_CODE_MISSING: changes("code", [], [""]),
    Code.AUTHORIZATION_MALFORMED: [
        *changes("code", ["code\n1"], ["codé"]),
        *changes("error", ["access_denied"]),
    ],
    Code.AUTHORIZATION_PARAMETER_TOO_LONG: [
        {name: ["a" * 4097]} for name in ("code", "state", "error_description")
    ],
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN))
def test_one_wrong_parameter_is_named(change: Any, code: Code) -> None:
    with refused(code, ProtocolViolation):
        parse({**ANSWER, **change})


@pytest.mark.parametrize("name", ["code", "state", "iss", "session_state"])
def test_no_parameter_is_repeated(name: str) -> None:
    with refused(Code.AUTHORIZATION_PARAMETER_REPEATED, ProtocolViolation):
        parse({**ANSWER, name: [*ANSWER[name], *ANSWER[name]]})


def test_an_issuer_that_was_not_promised_may_be_absent_and_is_compared_all_the_same() -> None:
    assert parse({**ANSWER, "iss": []}, issuer_promised=False).value == "code-1"
    with refused(Code.AUTHORIZATION_ISSUER_MISMATCH, ProtocolViolation):
        parse({**ANSWER, "iss": ["https://evil.test/"]}, issuer_promised=False)


@pytest.mark.parametrize("value", [[], [""], ["with space"], ["line\nbreak"], ["é"]])
def test_a_useless_session_state_is_as_good_as_none(value: list[str]) -> None:
    assert parse({**ANSWER, "session_state": value}).session_state is None


def test_a_parameter_may_be_as_long_as_an_encrypted_code() -> None:
    assert parse({**ANSWER, "code": ["a" * 4096]}).value == "a" * 4096


@pytest.mark.parametrize(
    ("said", "description"),
    [(["No."], "No."), ([], ""), (["<script>\r\n" + "a" * 3000], r"<script>\r\n" + "a" * 1988)],
)
def test_a_refusal_has_its_texts_escaped_and_cut(said: list[str], description: str) -> None:
    with pytest.raises(AuthorizationRefused) as caught:
        parse({**REFUSAL, "error_description": said})
    assert caught.value.code is Code.AUTHORIZATION_REFUSED
    assert (caught.value.error, caught.value.error_description) == ("access_denied", description)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"state": ["state-2"]}, Code.AUTHORIZATION_STATE_MISMATCH),
        ({"iss": ["https://evil.test/"]}, Code.AUTHORIZATION_ISSUER_MISMATCH),
        ({"iss": []}, Code.AUTHORIZATION_ISSUER_MISSING),
    ],
)
def test_a_refusal_is_believed_only_from_the_right_provider(
    change: Mapping[str, Sequence[str]], code: Code
) -> None:
    with refused(code, ProtocolViolation):
        parse({**REFUSAL, **change})


def test_the_state_is_read_before_anything_is_known() -> None:
    assert response_state(ANSWER) == "state-1"


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([], Code.AUTHORIZATION_STATE_MISSING),
        ([""], Code.AUTHORIZATION_STATE_MISSING),
        (["state-1", "state-1"], Code.AUTHORIZATION_PARAMETER_REPEATED),
        (["a" * 4097], Code.AUTHORIZATION_PARAMETER_TOO_LONG),
    ],
)
def test_an_unusable_state_is_refused(values: list[str], code: Code) -> None:
    with refused(code, ProtocolViolation):
        response_state({"state": values})
