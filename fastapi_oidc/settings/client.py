"""The client's authentication, certificates and signature algorithms, as the settings say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.protocol.client_auth import ClientAuthentication, client_authentication
from fastapi_oidc.protocol.jose.algorithms import require_algorithms
from fastapi_oidc.protocol.tenants import Tenants
from fastapi_oidc.provider import HTTPOptions
from fastapi_oidc.settings.texts import pem_or_jwk, revealed


def authentication_of(method: str | None, options: Mapping[str, Any]) -> ClientAuthentication:
    """The client's authentication method (Core 9); raises ConfigurationError.

    The default is `client_secret_basic` with a secret and `none` without.
    """
    if method is None:
        method = "none" if options["client_secret"] is None else "client_secret_basic"
    return client_authentication(
        method,
        client_id=options["client_id"],
        client_secret=revealed(options["client_secret"]),
        private_key=pem_or_jwk(revealed(options["client_private_key"])),
        algorithm=options["client_assertion_algorithm"],
        key_id=options["client_private_key_id"],
    )


def require_authorities(ca_file: str | None) -> None:
    """Require a file with certificate authorities; raises ConfigurationError."""
    _require_files(HTTPOptions(ca_file=ca_file))


def require_certificate(certificate_file: str | None, options: Mapping[str, Any]) -> None:
    """Require a certificate in the file, and its key there or in `client_certificate_key_file`.

    Raises ConfigurationError.
    """
    key_file = options["client_certificate_key_file"]
    _require_files(
        HTTPOptions(client_certificate_file=certificate_file, client_certificate_key_file=key_file)
    )


def _require_files(options: HTTPOptions) -> None:
    try:
        options.verification()
    except ConfigurationError as error:
        # Without the option's name: the caller adds it as the user wrote it.
        explanation = error.explanation.partition(": ")[2]
        raise ConfigurationError(error.code, explanation) from None


def tenants_of(names: Sequence[str], options: Mapping[str, Any]) -> Tenants | None:
    """The allowed tenants of a shared issuer, None for any other issuer.

    Raises ConfigurationError.
    """
    return Tenants.of(options["issuer"], names) if names else None


def algorithms_of(names: Sequence[str], options: Mapping[str, Any]) -> frozenset[str]:
    """The pinned algorithms of ID and logout tokens (Core 3.1.3.7 rule 7).

    Raises ConfigurationError.
    """
    return require_algorithms(names, revealed(options["client_secret"]))
