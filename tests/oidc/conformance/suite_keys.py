"""The suite's keys: several of every kind, without `alg`, beside keys that are for encryption."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fastapi_oidc.protocol.json import JSON
from tests.oidc.protocol.jose.keypairs import (
    Sign,
    compact,
    ec_jwk,
    ec_key,
    ed25519_jwk,
    ed25519_key,
    es,
    hs,
    ps,
    rs,
    rsa_jwk,
    rsa_key,
)

Members: TypeAlias = dict[str, JSON]

_SIGN: Mapping[str, Callable[[SuiteKeys], Sign]] = {
    "RS256": lambda keys: rs(rsa_key(keys.name("rsa-1"))),
    "PS256": lambda keys: ps(rsa_key(keys.name("rsa-1"))),
    "ES256": lambda keys: es(ec_key("P-256", keys.name("ec-1"))),
    "EdDSA": lambda _keys: ed25519_key().sign,
    "none": lambda _keys: lambda _message: b"",
}
_SIGNING_KEY: Mapping[str, str] = {
    "RS256": "rsa-1",
    "PS256": "rsa-1",
    "ES256": "ec-1",
    "EdDSA": "ed25519-1",
}


@dataclass(slots=True)
class SuiteKeys:
    """Every key of one generation; a rotation replaces all of them and their names."""

    client_secret: str
    generation: int = 1
    with_kid: bool = True
    several: bool = True

    def name(self, key: str) -> str:
        """The name of a key in this generation, also its `kid`."""
        return f"{key}-of-{self.generation}"

    def rotate(self) -> None:
        """Replace every key."""
        self.generation += 1

    def document(self) -> Members:
        """The key set (RFC 7517 5)."""
        names = ("1", "2") if self.several else ("1",)
        keys: list[JSON] = []
        for number in names:
            keys.append(self._jwk(f"rsa-{number}"))
            keys.append(self._jwk(f"ec-{number}"))
        keys += [self._jwk("secp256k1-1"), self._jwk("ed25519-1")]
        encryption: list[JSON] = [self._jwk("rsa-enc"), self._jwk("ec-enc")]
        return {"keys": keys + encryption}

    def sign(self, claims: Members, algorithm: str, header: Members | None = None) -> str:
        """`claims` as a JWT without `typ`, as the suite writes it."""
        named: Members = {"alg": algorithm}
        if self.with_kid and algorithm in _SIGNING_KEY:
            named["kid"] = self.name(_SIGNING_KEY[algorithm])
        return compact({**named, **(header or {})}, claims, self._sign(algorithm))

    def _sign(self, algorithm: str) -> Sign:
        if algorithm == "HS256":
            return hs(self.client_secret)
        return _SIGN[algorithm](self)

    def _jwk(self, key: str) -> Members:
        kind, _, use = key.partition("-")
        members: Members = {"use": "enc" if use == "enc" else "sig"}
        if self.with_kid:
            members["kid"] = self.name(key)
        match kind:
            case "rsa":
                return rsa_jwk(rsa_key(self.name(key)), **members)
            case "ec":
                return ec_jwk(ec_key("P-256", self.name(key)), **members)
            case "secp256k1":
                return ec_jwk(ec_key("secp256k1", self.name(key)), **members)
            case _:
                return ed25519_jwk(ed25519_key(), **members)
