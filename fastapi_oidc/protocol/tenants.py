"""Shared issuers, for many tenants: the `common` endpoints of Microsoft Entra.

The metadata has a template of an issuer, and each ID token has the issuer of its tenant (Microsoft
identity platform, "OpenID Connect on the Microsoft identity platform").
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation
from fastapi_oidc.protocol.error_text import shown
from fastapi_oidc.protocol.json import Claims

ANY_TENANT: Final = "*"
"""Allows every tenant."""
PLACEHOLDER: Final = "{tenantid}"

_SHARED: Final = re.compile(r"/(?:common|organizations)(?=/|$)")
_TENANT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Tenants:
    """The tenants whose tokens are accepted from a shared issuer; `allowed` is None for all."""

    template: str
    allowed: frozenset[str] | None

    @classmethod
    def of(cls, issuer: str, names: Collection[str]) -> Self:
        """The tenants `names` (lower-case GUIDs, or `*` alone) behind the shared `issuer`.

        Raises ConfigurationError (configuration.invalid).
        """
        if len(_SHARED.findall(issuer)) != 1:
            raise _invalid("allowed_tenants is for an issuer with /common or /organizations")
        wrong = [name for name in names if not _TENANT.fullmatch(name)]
        if wrong and tuple(names) != (ANY_TENANT,):
            raise _invalid(f"{shown(wrong[0])} in allowed_tenants is not a tenant id in lower case")
        template = _SHARED.sub(f"/{PLACEHOLDER}", issuer)
        return cls(template, None if wrong else frozenset(names))

    def require(self, claims: Claims, code: Code) -> None:
        """Require an allowed tenant in `tid`, and exactly its issuer in `iss`."""
        tenant = tenant_of(claims)
        if tenant is None:
            raise ProtocolViolation(code, f"tid is {shown(claims.get('tid'))}, not a tenant id")
        if self.allowed is not None and tenant not in self.allowed:
            raise ProtocolViolation(code, f"tid is {shown(tenant)}, which allowed_tenants has not")
        expected = self.issuer_of(tenant)
        if claims.get("iss") != expected:
            found = shown(claims.get("iss"))
            raise ProtocolViolation(code, f"iss is {found}, not {shown(expected)} as tid says")

    def issuer_of(self, tenant: str) -> str:
        """The `iss` of the tenant's tokens."""
        return self.template.replace(PLACEHOLDER, tenant)

    def has_issuer(self, iss: str) -> bool:
        """Whether `iss` is the issuer of an allowed tenant."""
        before, _, after = self.template.partition(PLACEHOLDER)
        tenant = iss.removeprefix(before).removesuffix(after)
        if self.issuer_of(tenant) != iss or not _TENANT.fullmatch(tenant):
            return False
        return self.allowed is None or tenant in self.allowed


def tenant_of(claims: Claims) -> str | None:
    """The tenant in the claims, None without one."""
    tenant = claims.get("tid")
    return tenant if isinstance(tenant, str) and _TENANT.fullmatch(tenant) else None


def _invalid(explanation: str) -> ConfigurationError:
    return ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
