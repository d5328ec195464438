"""All calls to the OpenID Provider."""

from fastapi_oidc.provider.client_endpoints import Proofs, Registration
from fastapi_oidc.provider.document import VerifiedToken
from fastapi_oidc.provider.http import PROVIDER_TIMEOUT
from fastapi_oidc.provider.network import HTTPOptions, Network
from fastapi_oidc.provider.provider import LONGEST_EXCHANGE, Provider

__all__ = [
    "LONGEST_EXCHANGE",
    "PROVIDER_TIMEOUT",
    "HTTPOptions",
    "Network",
    "Proofs",
    "Provider",
    "Registration",
    "VerifiedToken",
]
