"""The suite's keys: several of every kind, without `alg`, beside keys that are for encryption."""

from __future__ import annotations

from collections.abc import Mapping
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

_CURVES: Mapping[str, str] = {"256": "P-256", "384": "P-384", "512": "P-521"}


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
            keys.append(self._jwk(f"ec-P-256-{number}"))
        others = ("ec-P-384-1", "ec-P-521-1", "ec-secp256k1-1", "ed25519-1")
        keys += [self._jwk(name) for name in others]
        encryption: list[JSON] = [self._jwk("rsa-enc"), self._jwk("ec-P-256-enc")]
        return {"keys": keys + encryption}

    def sign(self, claims: Members, algorithm: str, header: Members | None = None) -> str:
        """`claims` as a JWT without `typ`, as the suite writes it."""
        named: Members = {"alg": algorithm}
        if self.with_kid and (key := signing_key(algorithm)):
            named["kid"] = self.name(key)
        return compact({**named, **(header or {})}, claims, self.signature(algorithm))

    def signature(self, algorithm: str) -> Sign:
        """How a message is signed with the key that belongs to `algorithm`."""
        family, bits = algorithm[:2], algorithm[2:]
        key = self.name(signing_key(algorithm))
        match family:
            case "RS":
                return rs(rsa_key(key), bits)
            case "PS":
                return ps(rsa_key(key), bits)
            case "ES":
                return es(ec_key(_CURVES[bits], key), bits)
            case "HS":
                return hs(self.client_secret, bits)
            case "Ed":
                return ed25519_key().sign
        return lambda _message: b""

    def _jwk(self, key: str) -> Members:
        kind, _, number = key.rpartition("-")
        members: Members = {"use": "enc" if number == "enc" else "sig"}
        if self.with_kid:
            members["kid"] = self.name(key)
        match kind:
            case "rsa":
                return rsa_jwk(rsa_key(self.name(key)), **members)
            case "ed25519":
                return ed25519_jwk(ed25519_key(), **members)
        return ec_jwk(ec_key(kind.removeprefix("ec-"), self.name(key)), **members)


def signing_key(algorithm: str) -> str:
    """The name of the key that the suite signs with; empty without a key of its own."""
    match algorithm[:2]:
        case "RS" | "PS":
            return "rsa-1"
        case "ES":
            return f"ec-{_CURVES[algorithm[2:]]}-1"
        case "Ed":
            return "ed25519-1"
    return ""
