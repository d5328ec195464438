import base64
import secrets

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.cookies import MAXIMUM_SEALED_LENGTH, KeyRing, Sealer
from tests.oidc.session.examples import OLD_SECRET, SECRET

SEALER = KeyRing([SECRET]).sealer("session")


def refused(sealed: str, *, sealer: Sealer = SEALER, name: str = "a") -> bool:
    with pytest.raises(SessionError) as caught:
        sealer.open(sealed, name=name)
    assert not sealed or sealed not in str(caught.value)
    return caught.value.code is Code.SESSION_SEAL_BROKEN


def test_the_same_content_is_never_sealed_twice_alike() -> None:
    assert SEALER.seal(b"content", name="a") != SEALER.seal(b"content", name="a")


@pytest.mark.parametrize(("secret", "purpose"), [(SECRET, "transaction"), (OLD_SECRET, "session")])
def test_a_seal_opens_for_its_purpose_and_with_its_secret_alone(secret: str, purpose: str) -> None:
    assert refused(KeyRing([secret]).sealer(purpose).seal(b"content", name="a"))


def test_the_newest_secret_seals_and_all_open() -> None:
    old = KeyRing([OLD_SECRET]).sealer("session")
    rotated = KeyRing([SECRET, OLD_SECRET]).sealer("session")
    assert rotated.open(old.seal(b"content", name="a"), name="a") == b"content"
    assert SEALER.open(rotated.seal(b"content", name="a"), name="a") == b"content"
    assert refused(rotated.seal(b"content", name="a"), sealer=old)


def test_a_seal_of_another_version_does_not_open() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = bytes(12)
    raw = nonce + AESGCM(KeyRing([SECRET]).keys("session")[0]).encrypt(nonce, b"content", b"2:a")
    assert refused(base64.urlsafe_b64encode(raw).decode().rstrip("="))


@pytest.mark.parametrize(
    "weak", [["x" * 31], ["x" * 32], ["changeme" * 4], [SECRET, "short"], [], SECRET]
)
def test_weak_secrets_are_refused(weak: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KeyRing(weak)
    assert caught.value.code is Code.CONFIGURATION_SECRET_TOO_SHORT
    assert "short" not in str(caught.value).partition(": ")[2]


@pytest.mark.parametrize("strong", [secrets.token_hex(32), "éèêëàâîï" * 2], ids=["hex", "bytes"])
def test_a_secret_counts_in_bytes_and_random_digits_are_no_repeated_word(strong: str) -> None:
    assert KeyRing([strong]).keys("session")


def test_what_is_longer_than_any_cookie_is_refused() -> None:
    longest = MAXIMUM_SEALED_LENGTH * 3 // 4 - 28
    assert SEALER.open(SEALER.seal(bytes(longest), name="a"), name="a") == bytes(longest)
    assert refused(SEALER.seal(bytes(longest + 1), name="a"))


def test_no_secret_is_in_repr() -> None:
    assert SECRET not in repr(KeyRing([SECRET])) + repr(SEALER) + repr(vars(SEALER))
