import pytest
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.testing import DevClient, DevUser
from fastapi_oidc.testing.registration import AuthenticationMethod

ED448_PEM = (
    ed448.Ed448PrivateKey.generate()
    .public_key()
    .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


@pytest.mark.parametrize(
    "method", ["client_secret_basic", "client_secret_post", "client_secret_jwt"]
)
def test_a_method_with_a_secret_needs_one(method: AuthenticationMethod) -> None:
    with pytest.raises(ConfigurationError, match="needs a client_secret"):
        DevClient(client_id="app", token_endpoint_auth_method=method)


def test_private_key_jwt_needs_a_public_key() -> None:
    with pytest.raises(ConfigurationError, match="needs a public_key"):
        DevClient(client_id="app", token_endpoint_auth_method="private_key_jwt")


@pytest.mark.parametrize("public_key", ["", "no PEM", ED448_PEM])
def test_a_public_key_must_be_usable(public_key: str) -> None:
    with pytest.raises(ConfigurationError, match="public_key is not a PEM"):
        DevClient(
            client_id="app", token_endpoint_auth_method="private_key_jwt", public_key=public_key
        )


@pytest.mark.parametrize(
    ("client_secret", "method"), [("secret", "client_secret_basic"), (None, "none")]
)
def test_the_method_follows_from_the_secret(client_secret: str | None, method: str) -> None:
    client = DevClient(client_id="app", client_secret=client_secret)
    assert client.authentication_method == method


def test_the_secret_is_not_shown() -> None:
    assert "hidden" not in repr(DevClient(client_id="app", client_secret="hidden"))


def test_a_user_without_a_name_is_called_by_the_sub() -> None:
    assert DevUser("alice").claims_for(["openid", "profile", "email"]) == {
        "name": "alice",
        "preferred_username": "alice",
    }
