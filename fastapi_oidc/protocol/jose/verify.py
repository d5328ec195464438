"""The signature of a compact JWS: one algorithm, the keys that suit it, nothing guessed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.error_text import shown
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS, Algorithm, secret_key
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.json import Claims


class Unverified(ProtocolViolation):
    """No key of this set verifies the token, but a newer set may have one that does.

    The code is jws.key_missing when no key suits, jws.signature when none of those that suit has
    signed it: the OP may have replaced a key without giving it another name.
    """


def verified_claims(
    token: CompactJWS,
    keys: JsonWebKeySet,
    *,
    algorithms: AbstractSet[str],
    client_secret: str | None,
    setting: str = "id_token_signing_algorithms",
) -> Claims:
    """The claims of `token`, whose signature is by the OP (RFC 7515 5.2; Core 3.1.3.7 rules 6-8).

    `algorithms` are those the client registration pins, by the `setting` of that name. Raises
    ProtocolViolation: jws.algorithm, jws.signature or jws.claims_malformed; Unverified when newer
    keys may help.
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
    """The key is the client secret, never a key of the set (Core 3.1.3.7 rule 8)."""
    key = secret_key(algorithm, client_secret)
    if key is None:
        raise ProtocolViolation(Code.JWS_ALGORITHM, "the client secret cannot be a key")
    if not key.verify(token.signing_input, token.signature):
        raise ProtocolViolation(Code.JWS_SIGNATURE)


def _require_signature(token: CompactJWS, algorithm: Algorithm, keys: JsonWebKeySet) -> None:
    candidates = keys.verifiers(algorithm.name, token.kid)
    if not candidates:
        raise Unverified(
            Code.JWS_KEY_MISSING, f"no key for {algorithm.name} with kid {shown(token.kid)}"
        )
    if not any(key.verify(token.signing_input, token.signature) for key in candidates):
        raise Unverified(Code.JWS_SIGNATURE, "none of the keys that suit has signed this")
