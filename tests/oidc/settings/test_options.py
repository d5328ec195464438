"""Options are checked when they are made, and secrets stay secret."""

from traceback import format_exception
from typing import Any

import pytest
from pydantic import BaseModel

from fastapi_oidc import OIDC, Code, ConfigurationError, MemoryStore, OIDCSettings, SessionStore
from tests.oidc.protocol.examples import Rules, breaking, changes, refused
from tests.oidc.protocol.jose.keypairs import ec_key, private_pem
from tests.oidc.settings.examples import SECRET, options

BY_KEY = {"client_auth_method": "private_key_jwt", "client_private_key": "no key"}
WRONG_OPTIONS: Rules = {
    Code.CONFIGURATION_INSECURE_URL: [
        *changes("issuer", "http://op.example.com"),
        *changes("base_url", "http://app.example.com"),
        *changes("trusted_origins", ["http://a.example.com"]),
    ],
    Code.CONFIGURATION_SECRET_TOO_SHORT: [
        *changes("cookie_secret", "x" * 31, [SECRET, "short"], []),
        *changes("id_token_signing_algorithms", ["HS512"]),
    ],
    Code.CONFIGURATION_PROTECTED_PARAMETER: [
        {"extra_params": {name: "x"}}
        for name in ("state", "nonce", "redirect_uri", "code_challenge", "client_id")
    ],
    Code.CONFIGURATION_KEY_UNUSABLE: [BY_KEY],
    Code.CONFIGURATION_INVALID: [
        {"client_auth_method": "private_key_jwt"},
        *changes("issuer", "https://op.example.com?a=b", "op.example.com"),
        *changes("base_url", None, "https://app.example.com/path"),
        *changes("cookie_secret", f"{SECRET},{SECRET}"),
        *changes(
            "id_token_signing_algorithms", "RS257", "[RS256", ["none"], [], ["RS256", "HS256"]
        ),
        *changes("scope", '["openid", 1]', ['["openid",', '"email"]'], 'openid,"email"'),
        *changes("extra_params", "no json"),
        *changes("trusted_origins", ["https://a.example.com/path"]),
        *changes("max_cookie_size", "x"),
        *changes("client_auth_method", "magic"),
        {"client_auth_method": "client_secret_post", "client_secret": None},
        *changes("default_return_path", "//evil"),
        *changes("name", "no name"),
        *changes("unknown", 1),
    ],
}


@pytest.mark.parametrize(("change", "code"), breaking(WRONG_OPTIONS))
def test_one_wrong_option_is_named(change: dict[str, Any], code: Code) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OIDCSettings(**options(**change))
    assert caught.value.code is code
    assert next(iter(change)) in str(caught.value)
    assert SECRET not in str(caught.value)
    with refused(code, ConfigurationError):
        OIDCSettings(**options()).model_copy(update=options(**change))


def test_no_secret_in_repr_or_dump() -> None:
    key = private_pem(ec_key())
    settings = OIDCSettings(**options(client_auth_method="private_key_jwt", client_private_key=key))
    shown = repr(settings) + str(settings) + repr(settings.model_dump())
    assert SECRET not in shown
    assert "PRIVATE KEY" not in shown
    with pytest.raises(TypeError) as caught:
        settings.client_secret = SECRET  # type: ignore[misc]
    assert SECRET not in str(caught.value)


class OwnStore(SessionStore):
    async def get(self, id: str, /) -> None: ...

    async def set(self, id: str, session: object, /) -> None: ...

    async def delete(self, id: str, /) -> None: ...


@pytest.mark.parametrize("option", ["session_store", "back_channel_logout_store", "refresh_lock"])
@pytest.mark.parametrize("given", ["mysql://:password@db", MemoryStore, object()])
def test_what_is_no_store_is_refused_where_it_is_written(option: str, given: object) -> None:
    wrong: dict[str, Any] = {option: given}
    if option == "refresh_lock":
        wrong["session_store"] = OwnStore()
    with pytest.raises(ConfigurationError, match=option) as caught:
        OIDC(OIDCSettings(**options()), **wrong)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert "password" not in str(caught.value)


def test_origins_are_as_browsers_write_them() -> None:
    origins = ["https://A.example.com:443/", "http://b.example.com:80", "https://c.example.com:80"]
    chosen = {"base_url": origins[0], "trusted_origins": origins, "allow_insecure_http": True}
    settings = OIDCSettings(**options(**chosen))
    assert settings.base_url == "https://a.example.com"
    written = ("https://a.example.com", "http://b.example.com", "https://c.example.com:80")
    assert settings.trusted_origins == written


def test_a_copy_has_the_kept_types() -> None:
    settings = OIDCSettings(**options())
    assert settings.scope == ("openid", "profile", "email")
    copy = settings.model_copy(update={"scope": "openid groups"})
    assert (copy.scope, copy.client_secret) == (("openid", "groups"), settings.client_secret)


@pytest.mark.parametrize("credential", ["client_secret", "client_private_key"])
def test_a_copy_for_another_provider_needs_credentials_of_its_own(credential: str) -> None:
    key = {"client_private_key": "a key"} if credential == "client_private_key" else {}
    settings = OIDCSettings(**options(**key))
    change = {"name": "partners", "issuer": "https://partners.example.com"}
    with pytest.raises(ConfigurationError, match=credential):
        settings.model_copy(update=change)
    none = {"client_secret": None, "client_private_key": None}
    partners = settings.model_copy(update={**change, **none})
    assert (partners.client_secret, partners.client_private_key) == (None, None)


def test_a_model_of_the_application_shows_no_secret_of_wrong_settings() -> None:
    class Application(BaseModel):
        oidc: OIDCSettings

    values = options(issuer="op.test")
    with pytest.raises(ConfigurationError) as caught:
        Application.model_validate({"oidc": values})
    assert values["client_secret"] not in "".join(format_exception(caught.value))


MISPLACED = "misplaced-secret-of-somebody"
TEXTS = (
    *("", MISPLACED, f" {MISPLACED} ", f'["{MISPLACED}"', f'["{MISPLACED}"]'),
    *(f'{{"a": "{MISPLACED}"}}', "null", "1e999", "-1", "9" * 400, MISPLACED * 5000),
    *(f"a\n{MISPLACED}", f"https://user:{MISPLACED}@host/", "https://[::1"),
    *(f"-----BEGIN PRIVATE KEY-----\n{MISPLACED}", f'{{"kty": "RSA", "n": "{MISPLACED}"}}'),
)
OTHERS = (
    *(None, f"\x00{MISPLACED}", f"\ud800{MISPLACED}", [MISPLACED, None], {"a": [MISPLACED]}),
    *(b"\xff" + MISPLACED.encode(), 2**70, float("nan"), object(), ("x",) * 10_000),
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
def test_no_odd_value_fails_or_is_shown(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {name: value for name, value in options().items() if name != option}
    for value in (*TEXTS, *OTHERS):
        require_quiet({**rest, option: value})
    for text in TEXTS[:6]:
        monkeypatch.setenv(f"OIDC_{option.upper()}", text)
        require_quiet(rest)
