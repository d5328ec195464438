"""The options that say how the provider is reached, and whose tokens it may hand out."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from fastapi_oidc import OIDC, Code, ConfigurationError, HTTPOptions, OIDCSettings
from tests.oidc.provider.certificates import Authority


def settings(**changes: Any) -> OIDCSettings:
    chosen: dict[str, Any] = {
        "issuer": "https://op.test",
        "client_id": "app",
        "cookie_secret": secrets.token_urlsafe(32),
        "base_url": "https://app.test",
    }
    return OIDCSettings(**(chosen | changes))


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
    options = settings().http_options()
    assert (options.ca_file, options.client_certificate_file) == (
        str(authority.file),
        str(certificate),
    )
    assert options.shows_certificate


def test_a_file_that_is_not_there_is_found_when_the_instance_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OIDC(settings(ca_file=str(tmp_path / "none.pem")))
    assert caught.value.code is Code.CONFIGURATION_KEY_UNUSABLE


def test_the_options_of_the_instance_replace_those_of_the_settings(tmp_path: Path) -> None:
    OIDC(settings(ca_file=str(tmp_path / "none.pem")), http=HTTPOptions())


def test_userinfo_has_algorithms_of_its_own() -> None:
    assert settings().userinfo_algorithms() == {"RS256"}
    assert settings(userinfo_signing_algorithms=["ES256"]).userinfo_algorithms() == {"ES256"}
    assert settings(userinfo_signing_algorithms=["ES256"]).algorithms() == {"RS256"}
    with pytest.raises(ConfigurationError, match="userinfo_signing_algorithms: unknown signing"):
        settings(userinfo_signing_algorithms=["none"])


def test_tenants_are_for_a_shared_issuer_and_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert settings().tenants() is None
    monkeypatch.setenv("OIDC_ALLOWED_TENANTS", "*")
    with pytest.raises(ConfigurationError, match=r"OIDC_ALLOWED_TENANTS: .*/common"):
        settings()
    tenants = settings(issuer="https://op.test/common/v2.0").tenants()
    assert tenants is not None
    assert (tenants.template, tenants.allowed) == ("https://op.test/{tenantid}/v2.0", None)
