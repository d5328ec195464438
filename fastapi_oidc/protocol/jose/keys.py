"""The algorithms of signatures (RFC 7518 3, RFC 8037, RFC 9864), the keys of a provider (RFC 7517),
and the verification of what they sign (RFC 7515 5.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from jose.backends.base import Key
from jose.backends.cryptography_backend import CryptographyECKey as ECKey
from jose.backends.cryptography_backend import CryptographyHMACKey as HMACKey
from jose.backends.cryptography_backend import CryptographyRSAKey as RSAKey
from jose.exceptions import JWKError

from fastapi_oidc.errors import Code, ProtocolViolation, ProviderError, misconfigured
from fastapi_oidc.protocol.encoding import Claims, CompactJWS, decode_base64url
from fastapi_oidc.protocol.refusal import shown


class OwnKey(Key):
    """A key of cryptography for RSASSA-PSS and Ed25519, which python-jose lacks.

    Only the table below uses it. It is not registered in python-jose, so its other users in the
    process are not affected.
    """

    def __init__(self, key: Any, algorithm: str) -> None:
        self._key = key
        self._parameters: tuple[object, ...] = ()
        if algorithm.startswith("PS"):
            hashing: hashes.HashAlgorithm = getattr(hashes, f"SHA{algorithm[2:]}")()
            # With a salt as long as the hash (RFC 7518 3.5).
            pss = padding.PSS(padding.MGF1(hashing), salt_length=hashing.digest_size)
            self._parameters = (pss, hashing)

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
    # Those that are read are texts. Of a number, python-jose would make so many bytes.
    members = {name: value for name, value in jwk.items() if isinstance(value, str)}
    match members.get("kty"), members.get("crv"):
        case "RSA", _:
            return RSAKey(members, "RS256").prepared_key
        case "EC", _:
            return ECKey(members, "ES256").prepared_key
        case "OKP", "Ed25519" if "d" in members:
            return ed25519.Ed25519PrivateKey.from_private_bytes(decode_base64url(str(members["d"])))
        case "OKP", "Ed25519":
            return ed25519.Ed25519PublicKey.from_public_bytes(decode_base64url(str(members["x"])))
    return None


MIN_RSA_BITS: Final = 2048
"""RFC 7518 3.3."""

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
            case rsa.RSAPublicKey() | rsa.RSAPrivateKey():
                return self.key_type == "RSA" and key.key_size >= MIN_RSA_BITS
            case ec.EllipticCurvePublicKey() | ec.EllipticCurvePrivateKey():
                return self.curve == key.curve.name
            case ed25519.Ed25519PublicKey() | ed25519.Ed25519PrivateKey():
                return self.key_type == "OKP"
        return False

    def key(self, material: object) -> Key:
        """`material` (a secret, or a key object of cryptography) as a key to sign or verify."""
        return self.key_class(material, self.name)


_ROWS = (
    Algorithm("RS256", "RSA", "sha256", RSAKey),
    Algorithm("RS384", "RSA", "sha384", RSAKey),
    Algorithm("RS512", "RSA", "sha512", RSAKey),
    Algorithm("PS256", "RSA", "sha256", OwnKey),
    Algorithm("PS384", "RSA", "sha384", OwnKey),
    Algorithm("PS512", "RSA", "sha512", OwnKey),
    Algorithm("ES256", "EC", "sha256", ECKey, curve="secp256r1"),
    Algorithm("ES384", "EC", "sha384", ECKey, curve="secp384r1"),
    Algorithm("ES512", "EC", "sha512", ECKey, curve="secp521r1"),
    Algorithm("EdDSA", "OKP", "sha512", OwnKey),
    Algorithm("Ed25519", "OKP", "sha512", OwnKey),
    Algorithm("HS256", "oct", "sha256", HMACKey, min_secret_bytes=32),
    Algorithm("HS384", "oct", "sha384", HMACKey, min_secret_bytes=48),
    Algorithm("HS512", "oct", "sha512", HMACKey, min_secret_bytes=64),
)

ALGORITHMS: Mapping[str, Algorithm] = {row.name: row for row in _ROWS}
"""The algorithms by their case-sensitive names, without `none`."""


def require_algorithms(names: Collection[str], client_secret: str | None) -> frozenset[str]:
    """The pinned algorithms of a client registration, as a set.

    Raises ConfigurationError for an empty or unknown choice, `none`, secret-based algorithms beside
    others (RFC 8725 3.1) or with a secret that is too short (Core 16.19).
    """
    if not names or not ALGORITHMS.keys() >= set(names):
        raise misconfigured(f"signing algorithms must be from {', '.join(ALGORITHMS)}")
    symmetric = [name for name in names if ALGORITHMS[name].key_type == "oct"]
    if symmetric and len(symmetric) != len(names):
        raise misconfigured("HS algorithms cannot be pinned together with others")
    for name in symmetric:
        require_secret(ALGORITHMS[name], client_secret)
    return frozenset(names)


def require_secret(algorithm: Algorithm, client_secret: str | None) -> Key:
    """The client secret as a key of an HS algorithm.

    Raises ConfigurationError (configuration.secret_too_short) for one that is too short (Core
    16.19), or looks like a public key (RFC 8725 2.1).
    """
    secret = (client_secret or "").encode()
    if len(secret) >= algorithm.min_secret_bytes:
        with suppress(JWKError):
            return algorithm.key(secret)
    explanation = (
        f"{algorithm.name} needs a random client secret of {algorithm.min_secret_bytes} bytes"
    )
    raise misconfigured(explanation, Code.CONFIGURATION_SECRET_TOO_SHORT)


PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

MAX_KEYS = 100


@dataclass(frozen=True, slots=True)
class JsonWebKey:
    """A public key, with a verifying key for each of its algorithms."""

    kid: object
    verifiers: Mapping[str, Key] = field(repr=False)

    @classmethod
    def parse(cls, jwk: object) -> Self | None:
        """The key in a JWK; None for one with a defect, and of another type, size or use."""
        if not isinstance(jwk, dict) or not _may_verify(jwk):
            return None
        try:
            key = key_of(jwk)
        except Exception:  # python-jose may raise any exception
            return None
        named = jwk.get("alg")
        rows = [row for row in ALGORITHMS.values() if row.fits(key) and named in (None, row.name)]
        return cls(jwk.get("kid"), {row.name: row.key(key) for row in rows}) if rows else None


@dataclass(frozen=True, slots=True)
class JsonWebKeySet:
    """The usable keys of a JWKS document. Unusable keys are left out."""

    keys: tuple[JsonWebKey, ...]

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse a JWKS of at most 100 keys. Raises ProviderError (provider.keys_invalid)."""
        members = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(members, list) or len(members) > MAX_KEYS:
            explanation = f"the key set has no list of at most {MAX_KEYS} keys"
            raise ProviderError(Code.PROVIDER_KEYS_INVALID, explanation)
        return cls(tuple(key for key in map(JsonWebKey.parse, members) if key is not None))

    def suitable(self, algorithm: str, kid: str | None) -> list[Key]:
        """The keys for `algorithm`; with a `kid`, only those with that name."""
        named = [key for key in self.keys if kid in (None, key.kid)]
        return [key.verifiers[algorithm] for key in named if algorithm in key.verifiers]


def _may_verify(jwk: Mapping[str, object]) -> bool:
    """Whether `use` and `key_ops` allow it (RFC 7517 4.2, 4.3), and the key is not private."""
    operations = jwk.get("key_ops", ["verify"])
    is_listed = operations is None or (isinstance(operations, list) and "verify" in operations)
    return is_listed and jwk.get("use") in (None, "sig") and jwk.get("d") is None


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
    Raises ConfigurationError for an HS algorithm without a suitable client secret.
    """
    algorithm = ALGORITHMS.get(token.header.alg) if token.header.alg in algorithms else None
    if algorithm is None:
        raise ProtocolViolation(
            Code.JWS_ALGORITHM,
            f"signed with {shown(token.header.alg)}, pinned are {shown(sorted(algorithms))}",
            setting=setting,
        )
    if algorithm.key_type != "oct":
        _require_signature(token, keys)
    # With the client secret alone, never with a key of the set (Core 3.1.3.7 rule 8).
    elif not is_signed_by(require_secret(algorithm, client_secret), token):
        raise ProtocolViolation(Code.JWS_SIGNATURE)
    return token.claims()


def _require_signature(token: CompactJWS, keys: JsonWebKeySet) -> None:
    """Verify with the key that `kid` names, else with any other key for the algorithm.

    `kid` is a hint (RFC 7515 4.1.4). Ory Hydra's refreshed ID tokens have the `kid` of the login,
    even if another key has signed them.
    """
    alg, kid = token.header.alg, token.header.kid
    named = keys.suitable(alg, kid)
    if any(is_signed_by(key, token) for key in named + keys.suitable(alg, None)):
        return
    if not named:
        raise Unverified(Code.JWS_KEY_MISSING, f"no key for {alg} with kid {shown(kid)}")
    raise Unverified(Code.JWS_SIGNATURE, "no suitable key has signed this")


def is_signed_by(key: Key, token: CompactJWS) -> bool:
    """Whether `key` verifies the signature of `token`."""
    return key.verify(token.signing_input, token.signature)
