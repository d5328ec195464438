import json
from collections.abc import Mapping, Sequence

import pytest

from fastapi_oidc.clock import LONGEST_DURATION
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol import refusal as refusals
from fastapi_oidc.protocol.authorization import AuthorizationCode, AuthorizationRefused
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.token import TokenResponse, authorization_code_grant, refresh_token_grant
from tests.oidc.protocol.examples import ABSENT, Absent, Changes, changed, changes, each, refused

ANSWER: dict[str, JSON] = {
    "access_token": "access-1",
    "token_type": "Bearer",
    "id_token": "a.b.c",
    "refresh_token": "refresh-1",
    "expires_in": 300,
    "scope": "openid profile",
    "session_state": "abc.salt",
    "unknown": {"of": ["any", "kind"]},
}


def read(document: object) -> TokenResponse:
    return TokenResponse.read(json.dumps(document).encode())


def test_the_unchanged_answer_is_accepted() -> None:
    tokens = read(ANSWER)
    assert tokens == TokenResponse(
        access_token="access-1",
        token_type="Bearer",
        id_token="a.b.c",
        refresh_token="refresh-1",
        expires_in=300,
        scope=("openid", "profile"),
        session_state="abc.salt",
    )
    assert not any(secret in repr(tokens) for secret in ("access-1", "a.b.c", "refresh-1"))


def test_only_the_access_token_and_its_type_are_needed() -> None:
    tokens = read({"access_token": "access-1", "token_type": "bearer"})
    assert tokens == TokenResponse("access-1", "Bearer")


@pytest.mark.parametrize("token_type", ["N_A", "mac", "Bearer ", "DPoP "])
def test_another_token_type_is_refused(token_type: str) -> None:
    with refused(Code.TOKEN_TYPE, ProviderError):
        read(changed(ANSWER, {"token_type": token_type}))


@pytest.mark.parametrize(
    ("token_type", "is_bound", "code"),
    [
        ("DPoP", True, Code.TOKEN_TYPE),
        ("dpop", True, Code.TOKEN_TYPE),
        ("Bearer", False, Code.TOKEN_NOT_BOUND),
    ],
)
def test_a_bound_token_is_one_that_was_asked_for(
    token_type: str, is_bound: bool, code: Code
) -> None:
    """RFC 9449 5."""
    response = read(changed(ANSWER, {"token_type": token_type}))
    response.require_binding(is_bound=is_bound)
    with refused(code, ProviderError):
        response.require_binding(is_bound=not is_bound)


@pytest.mark.parametrize("expires_in", [3600, "3600", 3600.0, 3600.97])
def test_a_lifetime_is_a_number_of_whole_seconds(expires_in: JSON) -> None:
    assert read(changed(ANSWER, {"expires_in": expires_in})).expires_in == 3600


@pytest.mark.parametrize(
    "expires_in", [LONGEST_DURATION, 631138518, 10**400, 1e300, "9" * 5000], ids=range(5)
)
def test_a_lifetime_has_a_bound(expires_in: JSON) -> None:
    """ORCID has 631138518."""
    answer = changed(ANSWER, {"expires_in": expires_in})
    assert read(answer).expires_in == LONGEST_DURATION


NO_LIFETIMES: Mapping[str, Sequence[JSON | Absent]] = {
    "nothing": (0, "0", 0.5, None, ABSENT),
    "less": (-1, -0.5, "-1"),
    "no number": ("soon", "", "٣", True, [300]),
}


@pytest.mark.parametrize("expires_in", each(NO_LIFETIMES))
def test_any_other_lifetime_is_unknown(expires_in: JSON | Absent) -> None:
    answer = changed(ANSWER, {"expires_in": expires_in})
    assert read(answer).expires_in is None


MALFORMED: Mapping[str, Sequence[Changes]] = {
    "no token": changes("access_token", ABSENT, None, "", 1, ["access-1"]),
    "a character": changes("access_token", "access\r\n1", "accéss"),
    "type": changes("token_type", ABSENT, None, ["Bearer"]),
    "ID token": changes("id_token", "", {}),
    "refresh token": changes("refresh_token", True, "refresh\x00"),
    "scope": changes("scope", ["openid", 1], ["openid\n"]),
    "session state": changes("session_state", 1),
}


@pytest.mark.parametrize("change", each(MALFORMED))
def test_one_malformed_member_is_refused(change: Changes) -> None:
    with refused(Code.TOKEN_MALFORMED, ProviderError):
        read(changed(ANSWER, change))


@pytest.mark.parametrize("document", [None, [], "text", 1, [ANSWER]])
def test_an_object_is_asked_for(document: object) -> None:
    with refused(Code.TOKEN_MALFORMED, ProviderError):
        read(document)


def test_a_scope_may_be_a_list_of_words_and_what_is_empty_is_none() -> None:
    answer = changed(ANSWER, {"scope": ["openid", "profile"]})
    assert read(answer).scope == ("openid", "profile")
    empty: Changes = {"scope": "", "session_state": "", "refresh_token": ""}
    tokens = read(changed(ANSWER, empty))
    assert (tokens.scope, tokens.session_state, tokens.refresh_token) == ((), None, None)


def test_a_code_exchange_brings_an_id_token() -> None:
    assert read(ANSWER).required_id_token() == "a.b.c"
    with refused(Code.TOKEN_ID_TOKEN_MISSING, ProviderError):
        read(changed(ANSWER, {"id_token": ABSENT})).required_id_token()


def test_a_code_is_exchanged_with_its_verifier() -> None:
    assert authorization_code_grant(
        AuthorizationCode("code-1"), "https://app.test/callback", "verifier-1"
    ) == {
        "grant_type": "authorization_code",
        "code": "code-1",
        "redirect_uri": "https://app.test/callback",
        "code_verifier": "verifier-1",
    }


def test_a_refresh_asks_for_no_other_scope() -> None:
    grant = refresh_token_grant("refresh-1")
    assert grant == {"grant_type": "refresh_token", "refresh_token": "refresh-1"}


URL = "https://op.test/token"
MEANS_THE_GRANT = ("invalid_grant", "interaction_required", "login_required", "consent_required")


@pytest.mark.parametrize(
    ("document", "status", "kind"),
    [
        *(({"error": error}, 400, refusals.RefusedGrant) for error in MEANS_THE_GRANT),
        ({"error": "invalid_grant"}, 401, refusals.RefusedGrant),
        ({"error": "invalid_client"}, 401, refusals.RefusedClient),
        ({"error": "unauthorized_client"}, 403, refusals.RefusedClient),
        ({"error": "unknown"}, 401, refusals.RefusedClient),
        ({"error": "invalid_request"}, 400, refusals.RefusedRequest),
        ({"error": 1, "error_description": 2}, 400, refusals.RefusedRequest),
        (None, 400, refusals.RefusedRequest),
    ],
)
def test_a_refusal_has_the_kind_of_its_error(
    document: object, status: int, kind: type[refusals.TokenRefused]
) -> None:
    assert type(refusals.refusal(document, status, url=URL)) is kind


def test_the_words_of_the_provider_are_escaped_and_cut() -> None:
    document = {"error": "bad\n" + "x" * 999, "error_description": "why\r\n" + "y" * 9999}
    refused = refusals.refusal(document, 400, url=URL)
    assert refused.error == r"bad\n" + "x" * 195
    assert refused.description == r"why\r\n" + "y" * 1993
    assert str(refused) == (
        f"token.refused: the provider returned {refused.error} ({refused.description})"
    )
    assert refused.details == {"url": URL, "status": 400}


@pytest.mark.parametrize("name", ["error", "error_description"])
def test_a_secret_that_the_provider_repeats_is_taken_out(name: str) -> None:
    document = {"error": "invalid_request", name: "unknown token s3cr3t-t0ken given"}
    refused = refusals.refusal(document, 400, url=URL, sent=["s3cr3t-t0ken", ""])
    assert "unknown token [...] given" in str(refused)
    assert "s3cr3t" not in repr(refused) + str(refused) + str(refused.details)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "missing"), (True, "True"), (1.5, "1.5"), ({"a": 1}, "a JSON object")),
        *(("https://op.test/", "'https://op.test/'"), ("a\nb", r"'a\nb'")),
        (refusals.LARGEST_NUMBER - 1, "999999999999999999"),
        *((sign * refusals.LARGEST_NUMBER, "a large number") for sign in (1, -1)),
        *((["a", None, 1], "['a', missing, 1]"), (("a", ["b"]), "['a', ['b']]")),
        (["a"] * 6, "['a', 'a', 'a', 'a', 'a']"),
    ],
)
def test_each_kind_of_value_has_its_text(value: object, text: str) -> None:
    assert refusals.shown(value) == text


def test_a_text_is_cut_before_and_after_it_is_escaped() -> None:
    assert refusals.cleaned("a" * (refusals.MAX_TEXT + 1)) == "a" * refusals.MAX_TEXT
    assert refusals.cleaned("\n" * refusals.MAX_TEXT) == r"\n" * (refusals.MAX_TEXT // 2)
    assert refusals.shown("a" * (refusals.MAX_VALUE + 1)) == f"'{'a' * refusals.MAX_VALUE}'"


def test_what_a_terminal_or_a_log_interprets_is_escaped() -> None:
    assert (
        refusals.cleaned("\x1b[2J\r\n\u202e\\\ud800\xfc <b>")
        == r"\x1b[2J\r\n\u202e\\\ud800\xfc <b>"
    )


def test_a_secret_of_six_characters_is_taken_out() -> None:
    assert refusals.without("it was 123456.", ["123456"]) == "it was [...]."
    assert refusals.without("it was 123456.", ["12345"]) == "it was 123456."


@pytest.mark.parametrize(("description", "said"), [("", "nothing more"), ("not you", "not you")])
def test_a_refused_login_has_the_words_of_the_provider(description: str, said: str) -> None:
    refused = AuthorizationRefused("access_denied", description)
    assert refused.explanation == f"the provider returned access_denied ({said})"
    assert refused.details == {"error": "access_denied"}


def test_a_refused_client_names_the_settings_that_may_be_wrong() -> None:
    error = refusals.refusal({"error": "invalid_client"}, 401, url=URL)
    assert str(error.details["setting"]).startswith("client_id, client_auth_method")
