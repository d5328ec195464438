"""Verifies the signature of a compact JWS, with a pinned algorithm and the issuer's keys."""

from __future__ import annotations

import logging
from collections.abc import Set as AbstractSet
from functools import lru_cache

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.error_text import shown
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS, Algorithm, secret_key
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKey, JsonWebKeySet
from fastapi_oidc.protocol.json import Claims

_logger = logging.getLogger("fastapi_oidc.provider")


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
    if any(_signs(key, algorithm, token) for key in named):
        return
    for key in keys.suitable(algorithm.name, None):
        if key not in named and _signs(key, algorithm, token):
            _warn_of_wrong_name(token.kid, key.kid)
            return
    if not named:
        raise Unverified(
            Code.JWS_KEY_MISSING, f"no key for {algorithm.name} with kid {shown(token.kid)}"
        )
    raise Unverified(Code.JWS_SIGNATURE, "no suitable key has signed this")


def _signs(key: JsonWebKey, algorithm: Algorithm, token: CompactJWS) -> bool:
    return key.verifiers[algorithm.name].verify(token.signing_input, token.signature)


@lru_cache(maxsize=16)
def _warn_of_wrong_name(named: str | None, signer: str | None) -> None:
    # Cached, so that it is logged once until the provider's next key rotation.
    _logger.warning(
        "the provider names the wrong key: a token with kid %s is signed by the key %s",
        shown(named),
        shown(signer),
    )
