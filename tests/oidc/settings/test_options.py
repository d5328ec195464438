"""Options are checked when they are made, and secrets stay secret."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    MemoryStore,
    OIDCSettings,
    SessionStore,
)
from tests.oidc.settings.examples import SECRET, options


def test_the_unchanged_options_are_accepted() -> None:
    settings = OIDCSettings(**options())
    assert settings.origin == "https://app.example.com"
    assert settings.scope == ("openid", "profile", "email")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"issuer": "http://op.example.com"}, Code.CONFIGURATION_INSECURE_URL),
        ({"issuer": "https://op.example.com?a=b"}, Code.CONFIGURATION_INVALID),
        ({"issuer": "op.example.com"}, Code.CONFIGURATION_INVALID),
        ({"base_url": None}, Code.CONFIGURATION_INVALID),
        ({"base_url": "http://app.example.com"}, Code.CONFIGURATION_INSECURE_URL),
        ({"base_url": "https://app.example.com/path"}, Code.CONFIGURATION_INVALID),
        ({"base_url": "https://App.example.com"}, Code.CONFIGURATION_INVALID),
        ({"base_url": "https://app.example.com:443"}, Code.CONFIGURATION_INVALID),
        ({"cookie_secret": "x" * 31}, Code.CONFIGURATION_SECRET_TOO_SHORT),
        ({"cookie_secret": f"{SECRET},{SECRET}"}, Code.CONFIGURATION_INVALID),
        ({"cookie_secret": [SECRET, "short"]}, Code.CONFIGURATION_SECRET_TOO_SHORT),
        ({"cookie_secret": []}, Code.CONFIGURATION_SECRET_TOO_SHORT),
        ({"extra_params": {"state": "x"}}, Code.CONFIGURATION_PROTECTED_PARAMETER),
        ({"extra_params": {"nonce": "x"}}, Code.CONFIGURATION_PROTECTED_PARAMETER),
        ({"extra_params": {"redirect_uri": "x"}}, Code.CONFIGURATION_PROTECTED_PARAMETER),
        ({"extra_params": {"code_challenge": "x"}}, Code.CONFIGURATION_PROTECTED_PARAMETER),
        ({"extra_params": {"client_id": "x"}}, Code.CONFIGURATION_PROTECTED_PARAMETER),
        ({"id_token_signing_algorithms": "RS257"}, Code.CONFIGURATION_INVALID),
        ({"id_token_signing_algorithms": "[RS256"}, Code.CONFIGURATION_INVALID),
        ({"scope": '["openid", 1]'}, Code.CONFIGURATION_INVALID),
        ({"scope": ['["openid",', '"email"]']}, Code.CONFIGURATION_INVALID),
        ({"scope": 'openid,"email"'}, Code.CONFIGURATION_INVALID),
        ({"extra_params": "no json"}, Code.CONFIGURATION_INVALID),
        ({"trusted_origins": ["https://a.example.com/"]}, Code.CONFIGURATION_INVALID),
        ({"trusted_origins": ["http://a.example.com"]}, Code.CONFIGURATION_INSECURE_URL),
        ({"max_cookie_size": "x"}, Code.CONFIGURATION_INVALID),
        ({"client_auth_method": "magic"}, Code.CONFIGURATION_INVALID),
        ({"unknown": 1}, Code.CONFIGURATION_INVALID),
        ({"id_token_signing_algorithms": ["none"]}, Code.CONFIGURATION_INVALID),
        ({"id_token_signing_algorithms": []}, Code.CONFIGURATION_INVALID),
        ({"id_token_signing_algorithms": ["RS256", "HS256"]}, Code.CONFIGURATION_INVALID),
        ({"id_token_signing_algorithms": ["HS512"]}, Code.CONFIGURATION_SECRET_TOO_SHORT),
        ({"client_auth_method": "private_key_jwt"}, Code.CONFIGURATION_KEY_UNUSABLE),
        (
            {"client_auth_method": "private_key_jwt", "client_private_key": "no key"},
            Code.CONFIGURATION_KEY_UNUSABLE,
        ),
        (
            {"client_auth_method": "client_secret_post", "client_secret": None},
            Code.CONFIGURATION_INVALID,
        ),
        ({"default_return_path": "//evil"}, Code.CONFIGURATION_INVALID),
        ({"name": "no name"}, Code.CONFIGURATION_INVALID),
    ],
)
def test_one_wrong_option_is_named(change: dict[str, Any], code: Code) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OIDCSettings(**options(**change))
    assert caught.value.code is code
    assert next(iter(change)) in str(caught.value)
    assert SECRET not in str(caught.value)


def test_no_secret_in_repr_or_dump() -> None:
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    settings = OIDCSettings(
        **options(client_auth_method="private_key_jwt", client_private_key=key.decode())
    )
    shown = repr(settings) + str(settings) + repr(settings.model_dump())
    assert SECRET not in shown
    assert "PRIVATE KEY" not in shown


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
