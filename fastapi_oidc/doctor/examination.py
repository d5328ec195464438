"""Checks the provider, in the order of a login."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx

from fastapi_oidc.assembly import provider_of
from fastapi_oidc.clock import Clock
from fastapi_oidc.doctor import document as written
from fastapi_oidc.doctor import endpoints
from fastapi_oidc.doctor.finding import Finding, fault, note, ok, warning
from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.metadata import discovery_url
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.provider.network import Network
from fastapi_oidc.provider.provider import Provider
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.settings.rules import unencrypted

_JSON = "application/json"


async def examine(
    settings: OIDCSettings,
    *,
    prefix: str = "/auth",
    clock: Clock | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[Finding]:
    """Yield each finding as soon as it is known. Nothing is changed at the provider.

    `prefix` is the prefix of the library's routes. Raises ConfigurationError for unusable settings;
    faults of the provider are findings.
    """
    clock = clock or Clock(drift=settings.clock_drift)
    network = Network(transport)
    provider = provider_of(settings, clock, network=network)
    http = HTTPClient(network, settings.http_options(), timeout=settings.provider_timeout)
    try:
        async for finding in _of_provider(settings, provider, http, clock, prefix):
            yield finding
    except OIDCError as error:
        yield fault(_TOPICS.get(error.code, "provider"), f"{error.code}: {error.message}")
    finally:
        await network.aclose()
    for finding in _of_application(settings, prefix):
        yield finding


_TOPICS = {
    Code.PROVIDER_ISSUER_MISMATCH: "issuer",
    Code.PROVIDER_METADATA_INVALID: "discovery",
    Code.PROVIDER_INSECURE_ENDPOINT: "endpoint",
    Code.PROVIDER_KEYS_INVALID: "keys",
}


async def _of_provider(
    settings: OIDCSettings, provider: Provider, http: HTTPClient, clock: Clock, prefix: str
) -> AsyncIterator[Finding]:
    answer = await http.request("GET", discovery_url(settings.issuer), accept=_JSON)
    answer.require_status(200)
    yield ok("discovery", answer.url)
    is_secure = settings.issuer.startswith("https:")
    yield ok("TLS", "the certificate is trusted") if is_secure else warning("TLS", "plain http")
    yield written.clocks(answer.date, clock)
    metadata = await provider.metadata()
    yield ok("issuer", metadata.issuer)
    async for finding in endpoints.optional_endpoints(metadata, http, settings):
        yield finding
    members = answer.published_document()
    document = members if isinstance(members, dict) else {}
    for finding in written.abilities(document, settings):
        yield finding
    keys = await http.request(
        "GET", metadata.jwks_uri, accept="application/jwk-set+json, application/json"
    )
    parsed = JsonWebKeySet.parse(keys.published_document())
    for finding in written.algorithms(document, parsed, settings):
        yield finding
    uri = f"{_routes(settings, prefix)}/callback"
    yield await endpoints.client(settings, provider, uri)
    yield await endpoints.redirect_uri(settings, provider, http, uri)


def _of_application(settings: OIDCSettings, prefix: str) -> Iterator[Finding]:
    if insecure := unencrypted(settings.base_url):
        yield warning("base_url", insecure)
    routes = _routes(settings, prefix)
    yield note("register", f"post-logout redirect URI {routes}/logged-out")
    yield note("register", f"back-channel logout URI {routes}/backchannel-logout, with a store")
    name = settings.cookie_names().session
    limit = f"{name} holds tokens and identity, at most {settings.max_cookie_size} bytes"
    yield note("cookie", f"{limit}; with a session store only a reference")


def _routes(settings: OIDCSettings, prefix: str) -> str:
    return (settings.base_url or "http://127.0.0.1:8000") + prefix
