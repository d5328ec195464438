"""What an instance reads of the environment, and how its mistakes are named."""

import logging
from pathlib import Path
from typing import Any

import pytest

from fastapi_oidc import OIDC, Code, ConfigurationError, HTTPOptions, OIDCSettings
from tests.oidc.provider.certificates import Authority
from tests.oidc.settings.examples import SECRET, options

REQUIRED = {
    "ISSUER": "https://op.example.com",
    "CLIENT_ID": "app",
    "CLIENT_SECRET": SECRET,
    "COOKIE_SECRET": f'["{SECRET}", "{SECRET}2"]',
    "BASE_URL": "https://app.example.com/",
}


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REQUIRED.items():
        monkeypatch.setenv(f"OIDC_{name}", value)


def test_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_EXTRA_PARAMS", '{"ui_locales": "de"}')
    monkeypatch.setenv("OIDC_FETCH_USERINFO", "false")
    monkeypatch.setenv("OIDC_MAX_AGE", "")
    monkeypatch.setenv("OIDC_NAME", "shop")
    policy = OIDCSettings()
    assert policy.extra_params == {"ui_locales": "de"}
    assert policy.fetch_userinfo is False
    assert policy.max_age is None, "an empty variable is none"
    assert (policy.name, policy.issuer) == ("shop", REQUIRED["ISSUER"])


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("scope", ("openid", "pages:read,write")),
        ("trusted_id_token_audiences", ("one", "two")),
        ("id_token_signing_algorithms", ("ES256", "PS256")),
        ("trusted_origins", ("https://a.example.com", "https://b.example.com")),
    ],
)
@pytest.mark.parametrize("form", ['["{}", "{}"]', ' [ "{}","{}" ] ', "{} {}", " {}  {} "])
def test_a_list_is_json_or_words(
    monkeypatch: pytest.MonkeyPatch, option: str, values: tuple[str, str], form: str
) -> None:
    text = form.replace("{}", values[0], 1).replace("{}", values[1], 1)
    monkeypatch.setenv(f"OIDC_{option.upper()}", text)
    assert getattr(OIDCSettings(), option) == values


def test_every_fault_is_named_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OIDC_COOKIE_SECRET")
    monkeypatch.setenv("OIDC_ISSUER", "http://op.example.com")
    monkeypatch.setenv("OIDC_EXTRA_PARAMS", "{no json")
    with pytest.raises(ConfigurationError) as caught:
        OIDCSettings(session_lifetime=1)
    assert caught.value.faults == (
        "OIDC_ISSUER: must be https; allow_insecure_http permits http for local development",
        "OIDC_COOKIE_SECRET: is missing",
        "OIDC_EXTRA_PARAMS: begins like JSON but is not valid JSON",
        "session_lifetime: Input should be greater than or equal to 60",
    )
    assert str(Path(".env").absolute()) in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("USE_PKCE", "x", "is not read: PKCE with S256 is always used"),
        ("COOKIE_SECERT", "x", "is not read: is cookie_secret meant?"),
        ("AUTHORITY", "x", "is not read: is issuer meant?"),
        ("NEXTAUTH_SECRET", "x", "is not read: is cookie_secret meant?"),
        ("TOKEN_ENDPOINT_AUTH_METHOD", "x", "is not read: is client_auth_method meant?"),
        ("REDIS_URL", "x", "is not read: a store is passed in code: OIDC(..., session_store=...)"),
        ("AUDIENCE", "x", "is not read: oidc.api(audience=...), or extra_params for logins"),
        ("TIMEOUT", "x", "is not read: idle_timeout or provider_timeout"),
        ("CLIENT_ID", '"app"', "has quotes, which `docker --env-file` keeps: remove them"),
        *[(name, "x", None) for name in ("PARTNERS_SCOPE", "PROXY_HOST", "A_SCOPE")],
        ("CLIENT_SECRET", "'one-quote", None),
    ],
)
def test_a_variable_that_looks_like_a_mistake_is_logged(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    value: str,
    said: str | None,
) -> None:
    monkeypatch.setenv(f"OIDC_{variable}", value)
    with caplog.at_level(logging.DEBUG):
        OIDCSettings()
    assert caplog.messages == ([f"OIDC_{variable} {said}"] if said else [])


def test_a_named_instance_reads_variables_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = options(name="my-partners")
    del chosen["client_secret"], chosen["issuer"]
    with pytest.raises(ConfigurationError, match="OIDC_MY_PARTNERS_ISSUER: is missing"):
        OIDCSettings(**chosen)
    monkeypatch.setenv("OIDC_MY_PARTNERS_ISSUER", "https://partners.example.com")
    partners = OIDCSettings(**chosen)
    assert partners.issuer == "https://partners.example.com"
    assert partners.client_secret is None, "that of the other provider is not taken"


def test_a_prefix_of_ones_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_ISSUER", "https://shop.example.com")
    chosen = options(name="shop")
    del chosen["issuer"]
    assert OIDCSettings(**chosen, _env_prefix="SHOP_").issuer == "https://shop.example.com"


def test_a_file_may_have_the_variables_of_several_and_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in REQUIRED:
        monkeypatch.delenv(f"OIDC_{name}")
    both = {"OIDC_": "https://op.example.com", "OIDC_PARTNERS_": "https://partners.example.com"}
    lines = [
        f"{prefix}{name}={value if name != 'ISSUER' else issuer}"
        for prefix, issuer in both.items()
        for name, value in REQUIRED.items()
    ]
    file = tmp_path / ".env"
    file.write_text("\n".join([*lines, "DATABASE_URL=postgres:", "OIDC_SCOPES=openid"]))
    monkeypatch.chdir(tmp_path)
    assert OIDCSettings().issuer == both["OIDC_"]
    assert caplog.messages == ["OIDC_SCOPES is not read: is scope meant?"]
    monkeypatch.chdir("/")
    assert OIDCSettings(name="partners", _env_file=file).issuer == both["OIDC_PARTNERS_"]


def settings(**changes: Any) -> OIDCSettings:
    return OIDCSettings(**options(**changes))


@pytest.mark.parametrize("method", ["tls_client_auth", "self_signed_tls_client_auth"])
def test_a_certificate_that_is_to_authenticate_must_be_there(method: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="client_certificate_file") as caught:
        OIDC(settings(client_auth_method=method))
    assert caught.value.code is Code.CONFIGURATION_KEY_UNUSABLE
    certificate = str(Authority(tmp_path).issue("client"))
    OIDC(settings(client_auth_method=method, client_certificate_file=certificate))
    OIDC(settings(client_auth_method=method), http=HTTPOptions(mutual_tls=True))


def test_files_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("client")
    monkeypatch.setenv("OIDC_CA_FILE", str(authority.file))
    monkeypatch.setenv("OIDC_CLIENT_CERTIFICATE_FILE", str(certificate))
    http = settings().http_options()
    assert (http.ca_file, http.client_certificate_file) == (str(authority.file), str(certificate))
    assert http.shows_certificate


@pytest.mark.parametrize("option", ["ca_file", "client_certificate_file"])
def test_a_file_that_is_not_there_is_named(option: str, tmp_path: Path) -> None:
    chosen = settings(**{option: str(tmp_path / "none.pem")})
    with pytest.raises(ConfigurationError, match=f"{option} cannot be used: No such") as caught:
        OIDC(chosen)
    assert caught.value.code is Code.CONFIGURATION_KEY_UNUSABLE


def test_a_certificate_is_used_with_the_key_of_the_other_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, other = authority.issue("client"), authority.issue("other")
    parts = certificate.read_text().partition("-----BEGIN CERTIFICATE-----")
    alone, key = tmp_path / "alone.pem", tmp_path / "key.pem"
    key.write_text(parts[0])
    alone.write_text(parts[1] + parts[2])
    OIDC(settings(client_certificate_file=str(alone), client_certificate_key_file=str(key)))
    for changes in ({}, {"client_certificate_key_file": str(other)}):
        with pytest.raises(ConfigurationError, match="client_certificate_file cannot be used"):
            OIDC(settings(client_certificate_file=str(alone), **changes))


def test_the_options_of_the_instance_replace_those_of_the_settings(tmp_path: Path) -> None:
    chosen = settings(ca_file=str(Authority(tmp_path).file), client_auth_method="tls_client_auth")
    with pytest.raises(ConfigurationError, match="needs client_certificate_file"):
        OIDC(chosen, http=HTTPOptions())
    OIDC(chosen, http=HTTPOptions(mutual_tls=True))


def test_userinfo_has_algorithms_of_its_own() -> None:
    assert settings().userinfo_algorithms() == {"RS256"}
    assert settings(userinfo_signing_algorithms=["ES256"]).userinfo_algorithms() == {"ES256"}
    assert settings(userinfo_signing_algorithms=["ES256"]).algorithms() == {"RS256"}
    with pytest.raises(
        ConfigurationError, match="userinfo_signing_algorithms: signing algorithms must be"
    ):
        settings(userinfo_signing_algorithms=["none"])


def test_tenants_are_for_a_shared_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_ALLOWED_TENANTS", "*")
    with pytest.raises(ConfigurationError, match=r"OIDC_ALLOWED_TENANTS: .*/common"):
        settings()
    shared = settings(issuer="https://op.test/common/v2.0").trusted_issuer()
    assert (shared.in_metadata, shared.all) == ("https://op.test/{tenantid}/v2.0", [])
