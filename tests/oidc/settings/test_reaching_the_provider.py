"""The options that say how the provider is reached, and whose tokens it may hand out."""

from pathlib import Path
from typing import Any

import pytest

from fastapi_oidc import OIDC, Code, ConfigurationError, HTTPOptions, OIDCSettings
from tests.oidc.provider.certificates import Authority
from tests.oidc.settings.examples import options


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
def test_a_file_that_is_not_there_is_named_as_it_was_written(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(ConfigurationError) as caught:
        settings(**{option: missing})
    assert caught.value.code is Code.CONFIGURATION_KEY_UNUSABLE
    assert caught.value.faults == (f"{option}: {option} cannot be used: No such file or directory",)
    monkeypatch.setenv(f"OIDC_{option.upper()}", missing)
    with pytest.raises(
        ConfigurationError, match=f"OIDC_{option.upper()}: .* cannot be used: No such"
    ):
        settings()


def test_a_certificate_is_used_with_the_key_of_the_other_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, other = authority.issue("client"), authority.issue("other")
    parts = certificate.read_text().partition("-----BEGIN CERTIFICATE-----")
    alone, key = tmp_path / "alone.pem", tmp_path / "key.pem"
    key.write_text(parts[0])
    alone.write_text(parts[1] + parts[2])
    settings(client_certificate_file=str(alone), client_certificate_key_file=str(key))
    for changes in ({}, {"client_certificate_key_file": str(other)}):
        with pytest.raises(ConfigurationError, match="client_certificate_file cannot be used"):
            settings(client_certificate_file=str(alone), **changes)


def test_a_file_that_is_gone_meanwhile_is_found_when_the_instance_is_made(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chosen = settings(ca_file=str(authority.file))
    authority.file.unlink()
    with pytest.raises(ConfigurationError, match="ca_file cannot be used"):
        OIDC(chosen)


def test_the_options_of_the_instance_replace_those_of_the_settings(tmp_path: Path) -> None:
    chosen = settings(ca_file=str(Authority(tmp_path).file), client_auth_method="tls_client_auth")
    with pytest.raises(ConfigurationError, match="needs client_certificate_file"):
        OIDC(chosen, http=HTTPOptions())
    OIDC(chosen, http=HTTPOptions(mutual_tls=True))


def test_userinfo_has_algorithms_of_its_own() -> None:
    assert settings().userinfo_algorithms() == {"RS256"}
    assert settings(userinfo_signing_algorithms=["ES256"]).userinfo_algorithms() == {"ES256"}
    assert settings(userinfo_signing_algorithms=["ES256"]).algorithms() == {"RS256"}
    with pytest.raises(ConfigurationError, match="userinfo_signing_algorithms: unknown signing"):
        settings(userinfo_signing_algorithms=["none"])


def test_tenants_are_for_a_shared_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_ALLOWED_TENANTS", "*")
    with pytest.raises(ConfigurationError, match=r"OIDC_ALLOWED_TENANTS: .*/common"):
        settings()
    shared = settings(issuer="https://op.test/common/v2.0").trusted_issuer()
    assert (shared.in_metadata, shared.all) == ("https://op.test/{tenantid}/v2.0", [])
