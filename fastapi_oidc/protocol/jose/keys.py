"""The algorithms of signatures (RFC 7518 3, RFC 8037, RFC 9864), the keys of a provider (RFC 7517),
and the verification of what they sign (RFC 7515 5.2).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from jose.backends.base import Key
from jose.backends.cryptography_backend import (
    CryptographyECKey,
    CryptographyHMACKey,
    CryptographyRSAKey,
)
from jose.exceptions import JWKError

from fastapi_oidc.errors import (
    Code,
    ConfigurationError,
    ProtocolViolation,
    ProviderError,
    misconfigured,
)
from fastapi_oidc.protocol.encoding import Claims, CompactJWS, decode_base64url
from fastapi_oidc.protocol.refusal import shown


def _pss(hashing: hashes.HashAlgorithm) -> tuple[object, ...]:
    """The parameters of RSASSA-PSS, with a salt as long as the hash (RFC 7518 3.5)."""
    return PSS(mgf=MGF1(hashing), salt_length=hashing.digest_size), hashing


_PARAMETERS: Final[Mapping[str, tuple[object, ...]]] = {
    "PS256": _pss(hashes.SHA256()),
    "PS384": _pss(hashes.SHA384()),
    "PS512": _pss(hashes.SHA512()),
}


class OwnKey(Key):
    """A key of cryptography for RSASSA-PSS and Ed25519, which python-jose lacks.

    Only the table below uses it. It is not registered in python-jose, so its other users in the
    process are not affected.
    """

    def __init__(self, key: Any, algorithm: str) -> None:
        self._key, self._parameters = key, _PARAMETERS.get(algorithm, ())

    def sign(self, msg: bytes) -> bytes:
        """The signature by a private key."""
        signature: bytes = self._key.sign(msg, *self._parameters)
        return signature

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether `sig` is a signature by this public key."""
        try:
            self._key.verify(sig, msg, *self._parameters)
        except InvalidSignature:
            return False
        return True


def key_of(jwk: Mapping[str, object]) -> object:
    """The public or private key object in a JWK (RFC 7518 6, RFC 8037 2), None for another kind.

    Raises any exception for a defect; its text may quote the key.
    """
    members = {name: value for name, value in jwk.items() if value is not None}
    match members.get("kty"), members.get("crv"):
        case "RSA", _:
            return CryptographyRSAKey(members, "RS256").prepared_key
        case "EC", _:
            return CryptographyECKey(members, "ES256").prepared_key
        case "OKP", "Ed25519" if "d" in members:
            return Ed25519PrivateKey.from_private_bytes(decode_base64url(str(members["d"])))
        case "OKP", "Ed25519":
            return Ed25519PublicKey.from_public_bytes(decode_base64url(str(members["x"])))
    return None


MIN_RSA_BITS: Final = 2048
"""RFC 7518 3.3."""

_NAME: Final = re.compile(r"[A-Za-z0-9+-]{1,12}")
_MAX_SHOWN: Final = 5

KeyType: TypeAlias = Literal["RSA", "EC", "OKP", "oct"]
HashName: TypeAlias = Literal["sha256", "sha384", "sha512"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A row of the table. `min_secret_bytes` is the minimum secret length of Core 16.19.

    `curve` has the name that cryptography uses.
    """

    name: str
    key_type: KeyType
    hash_name: HashName
    key_class: type[Key]
    curve: str | None = None
    min_secret_bytes: int = 0

    def fits(self, key: object) -> bool:
        """Whether a public or private key is of the right type, curve and size."""
        match key:
            case RSAPublicKey() | RSAPrivateKey():
                return self.key_type == "RSA" and key.key_size >= MIN_RSA_BITS
            case EllipticCurvePublicKey() | EllipticCurvePrivateKey():
                return self.curve == key.curve.name
            case Ed25519PublicKey() | Ed25519PrivateKey():
                return self.key_type == "OKP"
        return False

    def key(self, material: object) -> Key:
        """`material` (a secret, or a key object of cryptography) as a key to sign or verify."""
        return self.key_class(material, self.name)


_ROWS = (
    Algorithm("RS256", "RSA", "sha256", CryptographyRSAKey),
    Algorithm("RS384", "RSA", "sha384", CryptographyRSAKey),
    Algorithm("RS512", "RSA", "sha512", CryptographyRSAKey),
    Algorithm("PS256", "RSA", "sha256", OwnKey),
    Algorithm("PS384", "RSA", "sha384", OwnKey),
    Algorithm("PS512", "RSA", "sha512", OwnKey),
    Algorithm("ES256", "EC", "sha256", CryptographyECKey, curve="secp256r1"),
    Algorithm("ES384", "EC", "sha384", CryptographyECKey, curve="secp384r1"),
    Algorithm("ES512", "EC", "sha512", CryptographyECKey, curve="secp521r1"),
    Algorithm("EdDSA", "OKP", "sha512", OwnKey),
    Algorithm("Ed25519", "OKP", "sha512", OwnKey),
    Algorithm("HS256", "oct", "sha256", CryptographyHMACKey, min_secret_bytes=32),
    Algorithm("HS384", "oct", "sha384", CryptographyHMACKey, min_secret_bytes=48),
    Algorithm("HS512", "oct", "sha512", CryptographyHMACKey, min_secret_bytes=64),
)

ALGORITHMS: Mapping[str, Algorithm] = {row.name: row for row in _ROWS}
"""The algorithms by their case-sensitive names, without `none`."""


def require_algorithms(names: object, client_secret: str | None) -> frozenset[str]:
    """The pinned algorithms of a client registration, as a set.

    Raises ConfigurationError for a plain text, an empty or unknown choice, `none`, secret-based
    algorithms beside others (RFC 8725 3.1) or with a secret that is too short (Core 16.19).
    """
    chosen = _known(names)
    symmetric = [row for row in chosen if row.key_type == "oct"]
    if symmetric and len(symmetric) != len(chosen):
        raise misconfigured("HS algorithms cannot be pinned together with others")
    for row in symmetric:
        require_secret(row, client_secret)
    return frozenset(row.name for row in chosen)


def secret_key(algorithm: Algorithm, client_secret: str | None) -> Key | None:
    """The client secret as a key of an HS algorithm, None if it is unsuitable.

    It may be too short (Core 16.19), or look like a public key (RFC 8725 2.1).
    """
    secret = (client_secret or "").encode()
    if len(secret) < algorithm.min_secret_bytes:
        return None
    try:
        return algorithm.key(secret)
    except JWKError:
        return None


def require_secret(algorithm: Algorithm, client_secret: str | None) -> Key:
    """Like `secret_key`; raises ConfigurationError (configuration.secret_too_short) for None."""
    key = secret_key(algorithm, client_secret)
    if key is None:
        raise ConfigurationError(
            Code.CONFIGURATION_SECRET_TOO_SHORT,
            f"{algorithm.name} needs a random client secret of {algorithm.min_secret_bytes} bytes",
        )
    return key


def _known(names: object) -> list[Algorithm]:
    # A string is a collection of characters.
    if isinstance(names, str) or not isinstance(names, Collection) or not names:
        raise misconfigured("signing algorithms must be a list of at least one name")
    unknown = [name for name in map(str, names) if name not in ALGORITHMS]
    if unknown:
        # A value that is not a name may be a misplaced secret.
        given = [name if _NAME.fullmatch(name) else "(no name)" for name in unknown[:_MAX_SHOWN]]
        raise misconfigured(
            f"unknown signing algorithm {', '.join(given)}; known are {', '.join(ALGORITHMS)}"
        )
    return [ALGORITHMS[name] for name in map(str, names)]


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
