import pytest

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, require_algorithms
from tests.oidc.protocol.examples import each, refused

SECRET = "s" * 64


def test_the_table_has_the_algorithms_of_the_design_and_no_other() -> None:
    assert set(ALGORITHMS) == {
        *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
        *("HS256", "HS384", "HS512"),
    }


@pytest.mark.parametrize(
    "names",
    [["RS256"], ("RS256", "ES256", "EdDSA"), {"PS512"}, frozenset({"ES384"}), ["HS256", "HS512"]],
)
def test_known_algorithms_can_be_pinned(names: list[str]) -> None:
    assert require_algorithms(names, SECRET) == frozenset(names)


WRONG = {
    "no list": ("RS256", "xRS256y", b"RS256", None, 1, []),
    "none": (["none"], ["RS256", "none"]),
    "unknown": (["rs256"], ["RS257"], ["RS256 "], [None], [["RS256"]]),
    "both kinds of keys": (["RS256", "HS256"],),
}


@pytest.mark.parametrize("names", each(WRONG))
def test_any_other_choice_is_a_configuration_error(names: object) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        require_algorithms(names, SECRET)


@pytest.mark.parametrize(("name", "octets"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_is_as_long_as_the_hash(name: str, octets: int) -> None:
    assert require_algorithms([name], "é" * (octets // 2)) == {name}
    for secret in ("s" * (octets - 1), "", None, "-----BEGIN PUBLIC KEY-----" + "s" * octets):
        with refused(Code.CONFIGURATION_SECRET_TOO_SHORT, ConfigurationError):
            require_algorithms([name], secret)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["RS265"], "RS265"),
        (["RS265", "none"], "RS265, none"),
        (["a-secret-that-was-written-here"], "(no name)"),
        (["RS256\n"], "(no name)"),
        (["x"] * 9, "x, x, x, x, x"),
    ],
)
def test_an_unknown_name_is_shown_if_it_is_a_name(names: list[str], shown: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        require_algorithms(names, SECRET)
    assert caught.value.explanation.startswith(f"unknown signing algorithm {shown}; known are RS")
