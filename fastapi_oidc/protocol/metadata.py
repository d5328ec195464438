"""The provider's metadata (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

from fastapi_oidc.errors import Code, ProviderError, misconfigured
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.protocol.urls import fault_of_url, require_url

_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_REQUIRED: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_CALLED: Final = (
    "userinfo_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "pushed_authorization_request_endpoint",
)
"""What this client asks itself, as it asks the token endpoint; browsers ask the others."""
_OPTIONAL: Final = (*_CALLED, "end_session_endpoint", "check_session_iframe")


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """An OP's validated metadata. Only `parse` makes instances.

    Lists of supported features are left out, because this client's registration decides;
    `offers_offline_access` is for advice in the log (Core 11). An optional endpoint with an invalid
    URL counts as absent; `ignored` says which, and why.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    end_session_endpoint: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None
    pushed_authorization_request_endpoint: str | None = None
    check_session_iframe: str | None = None
    requires_pushed_authorization_requests: bool = False
    promises_authorization_response_issuer: bool = False
    ignored: tuple[str, ...] = ()
    offers_offline_access: bool = False

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
        members: Mapping[str, object] = document if isinstance(document, dict) else {}
        _require_issuer(members.get("issuer"), issuer.in_metadata)
        if mutual_tls:
            members = {**members, **_aliases(members)}
        may_be_http = allow_insecure_http and urlsplit(issuer.url).scheme == "http"
        urls: dict[str, Any] = {}
        ignored: list[str] = []
        scopes = members.get("scopes_supported")
        for name in (*_REQUIRED, *_OPTIONAL):
            fault = _fault(name, members.get(name), allow_http=may_be_http)
            if fault is None:
                urls[name] = members[name]
            elif name in _REQUIRED:
                raise fault
            elif members.get(name) is not None:
                ignored.append(fault.explanation)
        return cls(
            issuer=issuer.url,
            **urls,
            requires_pushed_authorization_requests=bool(
                members.get("require_pushed_authorization_requests")
            ),
            promises_authorization_response_issuer=bool(
                members.get("authorization_response_iss_parameter_supported")
            ),
            ignored=tuple(ignored),
            offers_offline_access=isinstance(scopes, list) and "offline_access" in scopes,
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


def _require_issuer(found: object, issuer: str) -> None:
    """Require an identical issuer, without normalization (Discovery 4.3)."""
    if found != issuer:
        raise ProviderError(
            Code.PROVIDER_ISSUER_MISMATCH,
            f"the document's issuer is {shown(found)}, the configured {shown(issuer)}",
            url=discovery_url(issuer),
            setting="issuer; allowed_tenants accepts the tenants of a shared one",
        )


def _aliases(members: Mapping[str, object]) -> Mapping[str, object]:
    """The endpoints of `mtls_endpoint_aliases` that this client asks (RFC 8705 5)."""
    aliases = members.get("mtls_endpoint_aliases")
    known = aliases if isinstance(aliases, dict) else {}
    return {name: known[name] for name in ("token_endpoint", *_CALLED) if known.get(name)}


def _fault(name: str, url: object, *, allow_http: bool) -> ProviderError | None:
    match fault_of_url(url, allow_insecure_http=allow_http):
        case None:
            return None
        case Code.CONFIGURATION_INSECURE_URL:
            code, explanation = Code.PROVIDER_INSECURE_ENDPOINT, f"{name} is not https"
        case _:
            code, explanation = Code.PROVIDER_METADATA_INVALID, f"{name} is missing or not a URL"
    return ProviderError(code, explanation, endpoint=name)
