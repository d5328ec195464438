"""Accepts access tokens from clients (RFC 6750, RFC 9068, RFC 7662, RFC 9449, RFC 8705)."""

from fastapi_oidc.resource_server.server import PresentedToken, ResourceServer, TokenIssuer
from fastapi_oidc.resource_server.token import AccessToken, Caller

__all__ = ["AccessToken", "Caller", "PresentedToken", "ResourceServer", "TokenIssuer"]
