"""All calls to the OpenID Provider; the only importer of httpx."""

from fastapi_oidc.provider.keys import VerifiedToken
from fastapi_oidc.provider.provider import Provider

__all__ = ["Provider", "VerifiedToken"]
