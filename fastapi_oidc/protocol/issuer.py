"""The issuer of a provider's messages, or those of the tenants behind a shared one."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Self

from fastapi_oidc.errors import Code, ProtocolViolation, misconfigured
from fastapi_oidc.protocol.encoding import Claims
from fastapi_oidc.protocol.refusal import shown

ANY_TENANT: Final = "*"
"""Allows every tenant."""
PLACEHOLDER: Final = "{tenantid}"

_SHARED: Final = re.compile(r"/(?:common|organizations)(?=/|$)")
_TENANT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """The issuer in the settings, and whose messages are accepted.

    With `tenants`, or ANY_TENANT alone, it is shared, and its messages are those of the tenants.
    """

    url: str
    tenants: frozenset[str] = frozenset()

    @classmethod
    def of(cls, url: str, tenants: Collection[str]) -> Self:
        """The issuer, shared by `tenants` (lower-case GUIDs, or `*` alone) if there are any.

        Raises ConfigurationError (configuration.invalid).
        """
        if tenants and len(_SHARED.findall(url)) != 1:
            raise misconfigured("allowed_tenants is for an issuer with /common or /organizations")
        wrong = [name for name in tenants if not _TENANT.fullmatch(name)]
        if wrong and tuple(tenants) != (ANY_TENANT,):
            raise misconfigured(
                f"{shown(wrong[0])} in allowed_tenants is not a tenant id in lower case"
            )
        return cls(url, frozenset(tenants))

    @property
    def in_metadata(self) -> str:
        """The issuer that its metadata must have: a template, if it is shared."""
        return self._of_tenant(PLACEHOLDER) if self.tenants else self.url

    @property
    def all(self) -> Sequence[str]:
        """The values of `iss` in its tokens; none if every tenant is allowed."""
        if not self.tenants:
            return [self.url]
        return [self._of_tenant(each) for each in sorted(self.tenants - {ANY_TENANT})]

    def has(self, iss: object) -> bool:
        """Whether `iss` is that of its tokens."""
        if not isinstance(iss, str) or not self.tenants:
            return iss == self.url
        before, _, after = self.in_metadata.partition(PLACEHOLDER)
        tenant = iss.removeprefix(before).removesuffix(after)
        return self._allows(tenant) and iss == self._of_tenant(tenant)

    def require(self, claims: Claims, code: Code) -> str:
        """Require exactly this issuer in `iss`, without normalization, and return it.

        Of a shared one, require an allowed tenant in `tid` and exactly its issuer in `iss`
        (OpenID Connect Core 3.1.3.7 rule 2, 16.15).
        """
        expected, found = self.url, claims.get("iss")
        if self.tenants:
            tenant = claims.get("tid")
            if not isinstance(tenant, str) or not self._allows(tenant):
                explanation = f"tid is {shown(tenant)}, which allowed_tenants has not"
                raise ProtocolViolation(code, explanation)
            expected = self._of_tenant(tenant)
        if found != expected:
            explanation = f"iss is {shown(found)}, the configured issuer {shown(expected)}"
            raise ProtocolViolation(code, explanation)
        return expected

    def _allows(self, tenant: str) -> bool:
        is_named = tenant in self.tenants or ANY_TENANT in self.tenants
        return is_named and _TENANT.fullmatch(tenant) is not None

    def _of_tenant(self, tenant: str) -> str:
        """The `iss` of the tenant's tokens."""
        return _SHARED.sub(f"/{tenant}", self.url)
