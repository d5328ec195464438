"""However settings were made, they are checked; and no provider gets another one's secret."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from fastapi_oidc import OIDC, Code, ConfigurationError, OIDCSettings
from tests.oidc.protocol.examples import refused
from tests.oidc.settings.examples import SECRET, options

WRONG = [
    ({"base_url": "http://app.example.com"}, Code.CONFIGURATION_INSECURE_URL),
    ({"default_return_path": "//evil"}, Code.CONFIGURATION_INVALID),
    ({"session_lifetime": "soon"}, Code.CONFIGURATION_INVALID),
    ({"cookie_secret": "short"}, Code.CONFIGURATION_SECRET_TOO_SHORT),
    ({"client_auth_method": "private_key_jwt"}, Code.CONFIGURATION_KEY_UNUSABLE),
    ({"unknown": 1}, Code.CONFIGURATION_INVALID),
]


@pytest.mark.parametrize(("change", "code"), WRONG)
def test_a_copy_is_checked(change: dict[str, Any], code: Code) -> None:
    with refused(code, ConfigurationError):
        OIDCSettings(**options()).model_copy(update=change)


@pytest.mark.parametrize(("change", "code"), WRONG[:-1])
def test_what_was_made_without_checks_is_checked_by_the_instance(
    change: dict[str, Any], code: Code
) -> None:
    with refused(code, ConfigurationError):
        OIDC(OIDCSettings.model_construct(**options(**change)))


def test_what_was_made_without_checks_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_ISSUER", "https://other.example.com")
    chosen = options()
    del chosen["issuer"]
    with pytest.raises(ConfigurationError, match="issuer: is missing"):
        OIDC(OIDCSettings.model_construct(**chosen))


def test_a_copy_has_the_kept_types() -> None:
    copy = OIDCSettings(**options()).model_copy(update={"scope": "openid groups"})
    assert copy.scope == ("openid", "groups")
    constructed = OIDC(OIDCSettings.model_construct(**options())).settings
    assert SECRET not in repr(constructed)


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


def test_a_copy_for_the_same_provider_keeps_its_secret() -> None:
    copy = OIDCSettings(**options()).model_copy(update={"name": "again"})
    assert copy.client_secret == OIDCSettings(**options()).client_secret


def test_settings_of_ones_own_with_other_names_are_checked_by_the_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Shop(OIDCSettings):
        client_id: str = Field(validation_alias="SHOP_CLIENT")

    monkeypatch.setenv("SHOP_CLIENT", "shop")
    chosen = options()
    del chosen["client_id"]
    settings = OIDC(Shop(**chosen)).settings
    assert (type(settings), settings.client_id) == (Shop, "shop")
    assert settings.model_copy(update={"name": "again"}).client_id == "shop"
