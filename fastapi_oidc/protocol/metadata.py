"""The provider's metadata (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from fastapi_oidc.errors import Code, ProviderError, misconfigured
from fastapi_oidc.protocol.claims import PLACEHOLDER, TrustedIssuer
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.protocol.urls import fault_of_url, require_url

_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_OPTIONAL: Final = (
    "userinfo_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "pushed_authorization_request_endpoint",
)
"""What this client asks itself, as it asks the token endpoint; browsers ask the others."""


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """An OP's validated metadata. Only `parse` makes instances.

    Lists of supported features are left out, because this client's registration decides. An
    optional endpoint with an invalid URL counts as absent; `ignored` says which, and why.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    revocation_endpoint: str | None
    introspection_endpoint: str | None
    pushed_authorization_request_endpoint: str | None
    check_session_iframe: str | None
    requires_pushed_authorization_requests: bool
    promises_authorization_response_issuer: bool
    ignored: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        document: object,
        *,
        issuer: TrustedIssuer,
        allow_insecure_http: bool = False,
        mutual_tls: bool = False,
    ) -> Self:
        """The metadata of exactly `issuer` (Discovery 3 and 4.3). Unknown members are ignored.

        An https issuer must have https endpoints, even with `allow_insecure_http`. With
        `mutual_tls`, the endpoints are those for clients with a certificate, if there are any (RFC
        8705 5). Raises ProviderError.
        """
        is_insecure = allow_insecure_http and urlsplit(issuer.url).scheme == "http"
        source = _Document(document, allow_insecure_http=is_insecure, mutual_tls=mutual_tls)
        source.require_issuer(issuer.in_metadata)
        return cls(
            issuer=issuer.url,
            authorization_endpoint=source.required_url("authorization_endpoint"),
            token_endpoint=source.required_url("token_endpoint"),
            jwks_uri=source.required_url("jwks_uri"),
            **{name: source.url(name) for name in _OPTIONAL},
            end_session_endpoint=source.url("end_session_endpoint"),
            check_session_iframe=source.url("check_session_iframe"),
            requires_pushed_authorization_requests=source.flag(
                "require_pushed_authorization_requests"
            ),
            promises_authorization_response_issuer=source.flag(
                "authorization_response_iss_parameter_supported"
            ),
            ignored=tuple(source.ignored),
        )


def discovery_url(issuer: str) -> str:
    """The URL of the metadata of `issuer`, without the issuer's final slash (Discovery 4.1)."""
    return issuer.removesuffix("/") + _WELL_KNOWN


def require_issuer_url(issuer: str, *, allow_insecure_http: bool) -> str:
    """`issuer` unchanged, if it is valid: https, no query, no fragment (Discovery 3).

    Raises ConfigurationError: configuration.insecure_url or configuration.invalid.
    """
    meant = "is a URL without query and fragment, as in https://op.example.com"
    require_url(issuer, meant, allow_insecure_http=allow_insecure_http)
    if "?" in issuer:
        raise misconfigured(meant)
    if issuer.rstrip("/").endswith(_WELL_KNOWN):
        raise misconfigured(
            f"is the address of the metadata; the issuer is what comes before {_WELL_KNOWN}"
        )
    return issuer


class _Document:
    """Typed access to the members of one discovery document."""

    def __init__(self, document: object, *, allow_insecure_http: bool, mutual_tls: bool) -> None:
        if not isinstance(document, dict):
            raise ProviderError(
                Code.PROVIDER_METADATA_INVALID, "the discovery document is not a JSON object"
            )
        self._members: dict[object, object] = document
        if mutual_tls:
            self._prefer_aliases()
        self._allow_insecure_http = allow_insecure_http
        self.ignored: list[str] = []

    def require_issuer(self, issuer: str) -> None:
        """Require an identical issuer, without normalization (Discovery 4.3)."""
        found = self._members.get("issuer")
        if found != issuer:
            explanation = f"the document's issuer is {shown(found)}, the configured {shown(issuer)}"
            if isinstance(found, str) and PLACEHOLDER in found:
                explanation += "; allowed_tenants accepts the tenants of a shared issuer"
            raise ProviderError(
                Code.PROVIDER_ISSUER_MISMATCH,
                explanation,
                url=discovery_url(issuer),
                setting="issuer",
            )

    def _prefer_aliases(self) -> None:
        """Replace the endpoints that this client uses by `mtls_endpoint_aliases` (RFC 8705 5)."""
        aliases = self._members.get("mtls_endpoint_aliases")
        if isinstance(aliases, dict):
            names = ("token_endpoint", *_OPTIONAL)
            asked = {name for name in names if aliases.get(name) is not None}
            self._members = self._members | {name: aliases[name] for name in asked}

    def url(self, name: str) -> str | None:
        """An optional endpoint; None if it is absent or unusable."""
        if self._members.get(name) is None:
            return None
        try:
            return self.required_url(name)
        except ProviderError as fault:
            self.ignored.append(fault.explanation)
            return None

    def required_url(self, name: str) -> str:
        url = self._members.get(name)
        fault = fault_of_url(url, allow_insecure_http=self._allow_insecure_http)
        if fault is Code.CONFIGURATION_INSECURE_URL:
            raise ProviderError(
                Code.PROVIDER_INSECURE_ENDPOINT, f"{name} is not https", endpoint=name
            )
        if fault is not None or not isinstance(url, str):
            raise ProviderError(
                Code.PROVIDER_METADATA_INVALID, f"{name} is missing or not a URL", endpoint=name
            )
        return url

    def flag(self, name: str) -> bool:
        """A boolean; absent and null are false (Discovery 4.2: no value, no member)."""
        value = self._members.get(name)
        if not isinstance(value, bool | None):
            raise ProviderError(Code.PROVIDER_METADATA_INVALID, f"{name} is not true or false")
        return bool(value)
