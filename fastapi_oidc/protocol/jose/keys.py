"""The keys of a provider (RFC 7517), and the verification of what they sign (RFC 7515 5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jose.backends.base import Key

from fastapi_oidc.errors import Code, ProtocolViolation, ProviderError
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS, Algorithm, key_of, secret_key
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.protocol.refusal import shown

PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

MAX_KEYS = 100

_Members: TypeAlias = Mapping[str, object]


class UnusableKey(ValueError):
    """A JWK that this library cannot use for verification. The message says why."""


@dataclass(frozen=True, slots=True)
class JsonWebKey:
    """A public key, with a verifying key for each of its algorithms. Only `parse` makes one."""

    kid: str | None
    verifiers: Mapping[str, Key] = field(repr=False)

    @classmethod
    def parse(cls, jwk: object) -> Self:
        """Parse a JWK. Raises UnusableKey for any fault, and for keys of other types or uses."""
        if not isinstance(jwk, dict):
            raise UnusableKey("not a JSON object")
        _require_verification_use(jwk)
        try:
            key = key_of(jwk)
        except Exception:  # python-jose may raise any exception
            key = None
        suitable = [row for row in ALGORITHMS.values() if row.fits(key)]
        if not suitable:
            raise UnusableKey("no key of a supported type, curve and size")
        named = _name(jwk, "alg")
        verifiers = {row.name: row.key(key) for row in suitable if named in (None, row.name)}
        return cls(_name(jwk, "kid"), verifiers)


@dataclass(frozen=True, slots=True)
class JsonWebKeySet:
    """The usable keys of a JWKS document. Unusable keys are left out."""

    keys: tuple[JsonWebKey, ...]

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse a JWKS of at most 100 keys. Raises ProviderError (provider.keys_invalid)."""
        members = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(members, list):
            raise ProviderError(Code.PROVIDER_KEYS_INVALID, "the key set has no list of keys")
        if len(members) > MAX_KEYS:
            raise ProviderError(Code.PROVIDER_KEYS_INVALID, f"more than {MAX_KEYS} keys")
        parsed = (_usable(member) for member in members)
        return cls(tuple(key for key in parsed if key is not None))

    def suitable(self, algorithm: str, kid: str | None) -> list[JsonWebKey]:
        """The keys for `algorithm`; with a `kid`, only those with that name."""
        return [key for key in self.keys if algorithm in key.verifiers and kid in (None, key.kid)]


def _usable(member: object) -> JsonWebKey | None:
    try:
        return JsonWebKey.parse(member)
    except UnusableKey:
        return None


def _require_verification_use(jwk: _Members) -> None:
    """Check `use` and `key_ops` (RFC 7517 4.2, 4.3), and refuse published private keys."""
    if jwk.get("use") not in (None, "sig"):
        raise UnusableKey("not for signatures")
    operations = jwk.get("key_ops")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        raise UnusableKey("not for verification")
    if jwk.get("d") is not None:
        raise UnusableKey("a private key")


def _name(jwk: _Members, name: str) -> str | None:
    value = jwk.get(name)
    if value is not None and not isinstance(value, str):
        raise UnusableKey(f"{name} is not a text")
    return value


class Unverified(ProtocolViolation):
    """No key of this set verifies the token, but a newer set may have a key that does.

    The code is jws.key_missing without a suitable key, and jws.signature if no suitable key has
    signed the token: the OP may have replaced a key without changing its name.
    """


def verified_claims(
    token: CompactJWS,
    keys: JsonWebKeySet,
    *,
    algorithms: AbstractSet[str],
    client_secret: str | None,
    setting: str = "id_token_signing_algorithms",
) -> Claims:
    """The claims of `token`, if the OP signed it (RFC 7515 5.2; Core 3.1.3.7 rules 6-8).

    `algorithms` are the pinned ones, from the setting named `setting`. Raises ProtocolViolation:
    jws.algorithm, jws.signature or jws.claims_malformed; Unverified when newer keys may verify it.
    """
    algorithm = _pinned(token, algorithms, setting)
    if algorithm.key_type == "oct":
        _require_secret_signature(token, algorithm, client_secret)
    else:
        _require_signature(token, algorithm, keys)
    return token.claims()


def _pinned(token: CompactJWS, algorithms: AbstractSet[str], setting: str) -> Algorithm:
    algorithm = ALGORITHMS.get(token.algorithm) if token.algorithm in algorithms else None
    if algorithm is None:
        raise ProtocolViolation(
            Code.JWS_ALGORITHM,
            f"signed with {shown(token.algorithm)}, pinned are {shown(sorted(algorithms))}",
            setting=setting,
        )
    return algorithm


def _require_secret_signature(
    token: CompactJWS, algorithm: Algorithm, client_secret: str | None
) -> None:
    """Verify with the client secret, never with a key of the set (Core 3.1.3.7 rule 8)."""
    key = secret_key(algorithm, client_secret)
    if key is None:
        raise ProtocolViolation(Code.JWS_ALGORITHM, "the client secret cannot be a key")
    if not key.verify(token.signing_input, token.signature):
        raise ProtocolViolation(Code.JWS_SIGNATURE)


def _require_signature(token: CompactJWS, algorithm: Algorithm, keys: JsonWebKeySet) -> None:
    """Verify with the key that `kid` names, else with any other key for the algorithm.

    `kid` is a hint (RFC 7515 4.1.4). Ory Hydra's refreshed ID tokens have the `kid` of the login,
    even if another key has signed them.
    """
    named = keys.suitable(algorithm.name, token.kid)
    if any(_signs(key, algorithm, token) for key in named + keys.suitable(algorithm.name, None)):
        return
    if not named:
        raise Unverified(
            Code.JWS_KEY_MISSING, f"no key for {algorithm.name} with kid {shown(token.kid)}"
        )
    raise Unverified(Code.JWS_SIGNATURE, "no suitable key has signed this")


def _signs(key: JsonWebKey, algorithm: Algorithm, token: CompactJWS) -> bool:
    return key.verifiers[algorithm.name].verify(token.signing_input, token.signature)
