"""Validates the options of `oidc.api(...)` and makes the resource server from them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Generic, TypedDict
from urllib.parse import urlsplit

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.relying_party import ResolveIdentity
from fastapi_oidc.protocol.access_token import ExpectedAccessToken
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS
from fastapi_oidc.protocol.urls import URLFault, fault_of_url
from fastapi_oidc.resource_server import ResourceServer
from fastapi_oidc.resource_server.introspections import Introspections
from fastapi_oidc.resource_server.possession import Proofs
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.runtime import Runtime

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")


class APIOptions(TypedDict, Generic[Identity], total=False):
    """The options of `oidc.api`; `API` describes them."""

    resource: str | None
    scopes: Mapping[str, str]
    algorithms: Collection[str] | None
    accept_plain_jwt: bool
    introspect: bool
    introspection_lifetime: int
    client_claim: str | None
    scope_claim: str
    roles_claim: str | tuple[str, ...]
    client_certificate_header: str | None
    resolve_identity: ResolveIdentity[Identity] | None
    authorization_url: str | None
    token_url: str | None


def resource_server(
    runtime: Runtime[Identity, Any],
    audience: str,
    options: APIOptions[Identity],
    login_algorithms: frozenset[str],
) -> ResourceServer:
    """The resource server with these options; raises ConfigurationError."""
    party, policy = runtime.party, runtime.party.policy
    plain, roles = options.get("accept_plain_jwt", False), options.get("roles_claim", "roles")
    if not audience:
        raise _invalid("audience must be the aud of the provider's tokens for this API")
    if plain and audience == policy.client_id:
        raise _invalid(
            "accept_plain_jwt needs another audience than the client_id, which ID tokens have"
        )
    lifetime = options.get("introspection_lifetime", 60)
    if lifetime < 0:
        raise _invalid("introspection_lifetime must be a number of seconds, 0 or more")
    does_introspect = options.get("introspect", False)
    return ResourceServer(
        expected=ExpectedAccessToken(
            issuer=policy.issuer,
            audience=audience,
            tenants=policy.tenants,
            accepts_plain_jwt=plain,
            client_claim=options.get("client_claim"),
            scope_claim=options.get("scope_claim", "scope"),
            roles_claim=(roles,) if isinstance(roles, str) else roles,
        ),
        algorithms=_algorithms(options.get("algorithms"), login_algorithms, does_introspect),
        provider=party.provider,
        clock=party.clock,
        proofs=Proofs(party.sessions.cells, party.clock),
        introspections=(
            Introspections(party.provider, party.clock, lifetime) if does_introspect else None
        ),
    )


def _algorithms(
    chosen: Collection[str] | None, login: frozenset[str], does_introspect: bool
) -> frozenset[str]:
    """Algorithms with public keys only: a shared secret could also be used to make tokens."""
    known = {name for name, row in ALGORITHMS.items() if row.key_type != "oct"}
    algorithms = known & login if chosen is None else frozenset(chosen)
    if not algorithms <= known or not (algorithms or does_introspect):
        raise _invalid(f"algorithms of an API must be from {', '.join(sorted(known))}")
    return frozenset(algorithms)


def resource_of(audience: str, resource: str | None, *, allow_insecure_http: bool) -> str | None:
    """The resource identifier (RFC 9728 1.2): `resource`, or the audience if it is a URL.

    Raises ConfigurationError unless it is an https URL without a fragment.
    """
    if resource is None and not audience.startswith(("https://", "http://")):
        return None
    identifier = resource or audience
    fault = fault_of_url(identifier, allow_insecure_http=allow_insecure_http)
    if fault is URLFault.INSECURE:
        raise ConfigurationError(
            Code.CONFIGURATION_INSECURE_URL, "an API's resource must be https, like base_url"
        )
    if fault is not None:
        raise _invalid("resource must be an https URL without a fragment")
    return identifier


def metadata_path(resource: str) -> str:
    """The path of the metadata of `resource` at its host (RFC 9728 3.1)."""
    return _WELL_KNOWN + urlsplit(resource).path.rstrip("/")


def metadata_url(resource: str) -> str:
    """The URL of the metadata of `resource` (RFC 9728 3.1)."""
    parts = urlsplit(resource)
    return parts._replace(path=metadata_path(resource)).geturl()


def require_scopes_readable(scopes: Collection[str]) -> None:
    """Require a valid word (RFC 6749 3.3) for each scope; raises ConfigurationError."""
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise _invalid(f"{scope!r} is not a scope: a scope is one word without quotes")


def _invalid(explanation: str) -> ConfigurationError:
    return ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
