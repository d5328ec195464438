"""The issuer as it is configured, and where its metadata is."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.metadata import discovery_url, require_issuer_url
from tests.oidc.protocol.examples import ISSUER, refused


@pytest.mark.parametrize(
    ("issuer", "url"),
    [
        ("https://op.test", "https://op.test/.well-known/openid-configuration"),
        ("https://op.test/", "https://op.test/.well-known/openid-configuration"),
        ("https://op.test/a/", "https://op.test/a/.well-known/openid-configuration"),
        ("https://op.test/a//", "https://op.test/a//.well-known/openid-configuration"),
    ],
)
def test_one_final_slash_is_dropped_for_discovery(issuer: str, url: str) -> None:
    assert discovery_url(issuer) == url


def test_an_issuer_is_kept_as_it_is() -> None:
    assert require_issuer_url(ISSUER, allow_insecure_http=False) == ISSUER


def test_an_http_issuer_must_be_allowed() -> None:
    with refused(Code.CONFIGURATION_INSECURE_URL, ConfigurationError):
        require_issuer_url("http://localhost:9400", allow_insecure_http=False)
    assert require_issuer_url("http://localhost:9400", allow_insecure_http=True)


@pytest.mark.parametrize("issuer", ["", "op.test", "https://op.test?a=b", "https://op.test#a"])
def test_an_issuer_that_cannot_be_one_is_refused(issuer: str) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        require_issuer_url(issuer, allow_insecure_http=False)


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_the_address_of_the_metadata_is_no_issuer(end: str) -> None:
    issuer = f"https://op.test/a/.well-known/openid-configuration{end}"
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        require_issuer_url(issuer, allow_insecure_http=False)
    assert require_issuer_url(f"{issuer}X", allow_insecure_http=False)
