"""All calls to the OpenID Provider."""

from fastapi_oidc.provider.client_endpoints import Registration
from fastapi_oidc.provider.deadline import deadline
from fastapi_oidc.provider.http import PROVIDER_TIMEOUT
from fastapi_oidc.provider.keys import Undecided, VerifiedToken
from fastapi_oidc.provider.network import Network
from fastapi_oidc.provider.options import HTTPOptions
from fastapi_oidc.provider.proofs import Proofs
from fastapi_oidc.provider.provider import LONGEST_EXCHANGE, Provider

__all__ = [
    "LONGEST_EXCHANGE",
    "PROVIDER_TIMEOUT",
    "HTTPOptions",
    "Network",
    "Proofs",
    "Provider",
    "Registration",
    "Undecided",
    "VerifiedToken",
    "deadline",
]
