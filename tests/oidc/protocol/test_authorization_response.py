from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation, ProviderError
from fastapi_oidc.protocol import authorization
from tests.oidc.protocol.examples import CLIENT_ID, ISSUER, Rules, breaking, changes, refused

ANSWER: authorization.Parameters = {
    "code": ["code-1"],
    "state": ["state-1"],
    "iss": [ISSUER],
    "session_state": ["abc.salt"],
    "unknown": ["1", "2"],
}
REFUSAL: authorization.Parameters = {
    "error": ["access_denied"],
    "error_description": ["No."],
    "state": ["state-1"],
    "iss": [ISSUER],
}


def parse(
    answer: authorization.Parameters, *, issuer_promised: bool = True
) -> authorization.AuthorizationCode:
    return authorization.AuthorizationCode.parse(
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
    Code.AUTHORIZATION_MALFORMED: changes("code", ["c\n1"], ["é"]),
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
    with pytest.raises(authorization.AuthorizationRefused) as caught:
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
    assert authorization.response_state(ANSWER) == "state-1"


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
        authorization.response_state({"state": values})


OWN = {
    "client_id": CLIENT_ID,
    "redirect_uri": "https://app.test/auth/callback",
    "scope": ("openid", "profile", "email"),
    "state": "state-1",
    "nonce": "nonce-1",
    "code_challenge": "challenge-1",
}

REQUIRED = {
    **OWN,
    "scope": "openid profile email",
    "response_type": "code",
    "code_challenge_method": "S256",
}


@pytest.mark.parametrize(
    ("scope", "sent"),
    [((), ("openid",)), (("a",), ("openid", "a")), (("a", "openid", "a"), ("openid", "a"))],
)
def test_openid_is_always_in_the_scope(scope: tuple[str, ...], sent: tuple[str, ...]) -> None:
    assert authorization.with_openid(scope) == sent


def test_parameters_are_sent_when_they_have_a_value() -> None:
    nothing = {"prompt": None, "login_hint": "", "acr_values": ()}
    assert authorization.authorization_parameters({}, **OWN, **nothing) == REQUIRED
    parameters = authorization.authorization_parameters(
        {"ui_locales": "de", "prompt": "login"}, **OWN, prompt="none", max_age=0
    )
    assert parameters == REQUIRED | {"ui_locales": "de", "prompt": "none", "max_age": "0"}


@pytest.mark.parametrize("name", sorted(authorization.PROTECTED_PARAMETERS))
def test_extra_parameters_cannot_set_a_protected_one(name: str) -> None:
    with refused(Code.CONFIGURATION_PROTECTED_PARAMETER, ConfigurationError):
        authorization.require_unprotected({"ui_locales": "de", name: "x"})
    with refused(Code.CONFIGURATION_PROTECTED_PARAMETER, ConfigurationError):
        authorization.authorization_parameters({name: "x"}, **OWN)


def test_everything_a_check_relies_on_is_protected() -> None:
    assert REQUIRED.keys() <= authorization.PROTECTED_PARAMETERS


@pytest.mark.parametrize(
    "document",
    [None, [], {}, *({"request_uri": each} for each in (None, "", "a\nb", "a b", "a" * 4097))],
)
def test_a_pushed_authorization_response_has_a_request_uri(document: object) -> None:
    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        authorization.pushed_request_uri(document)


def test_the_example_of_rfc_7636_appendix_b() -> None:
    assert (
        authorization.code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


@pytest.mark.parametrize("verifier", ["a" * 43, "a" * 128, "-._~" * 20])
def test_a_verifier_of_allowed_length_and_characters(verifier: str) -> None:
    assert len(authorization.code_challenge(verifier)) == 43


@pytest.mark.parametrize(
    "verifier", ["", "a" * 42, "a" * 129, "a" * 42 + "+", "a" * 42 + "é", "a" * 43 + "\n"]
)
def test_any_other_verifier_is_refused(verifier: str) -> None:
    with pytest.raises(ValueError, match="7636"):
        authorization.code_challenge(verifier)
