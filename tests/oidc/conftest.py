"""Signing keys of the tests' providers, and where sessions are."""

from collections.abc import Iterator
from functools import cache
from itertools import count

import pytest

from fastapi_oidc.protocol.jose.sign import PrivateKey
from fastapi_oidc.testing import keys
from fastapi_oidc.testing.keys import generate_key

KEYS = 4


@pytest.fixture(scope="session", autouse=True)
def keys_made_once() -> Iterator[None]:
    """To make an RSA key takes as long as a whole login: a provider, and each rotation of its keys,
    gets the next of four."""
    turns = count()

    @cache
    def made(algorithm: str, _turn: int) -> PrivateKey:
        return generate_key(algorithm)

    def next_key(algorithm: str) -> PrivateKey:
        return made(algorithm, next(turns) % KEYS)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "generate_key", next_key)
        yield


@pytest.fixture(params=["cookie", "store"])
def mode(request: pytest.FixtureRequest) -> str:
    """Where sessions are."""
    mode: str = request.param
    return mode
