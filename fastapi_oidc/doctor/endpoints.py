"""Checks endpoints with requests that change nothing and have no cookies."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from html.parser import HTMLParser
from typing import Final
from urllib.parse import parse_qsl, urljoin, urlsplit, urlunsplit

from fastapi_oidc.doctor.finding import Finding, fault, ok, warning
from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.protocol.authorization import (
    AuthorizationCode,
    AuthorizationRefused,
    authorization_parameters,
    code_challenge,
    with_openid,
)
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.protocol.refusal import TEMPORARY_ERRORS, RefusedGrant, RefusedRequest
from fastapi_oidc.protocol.token import authorization_code_grant
from fastapi_oidc.provider.http import HTTPClient, OPResponse
from fastapi_oidc.provider.provider import Provider
from fastapi_oidc.settings import OIDCSettings

_OPTIONAL: Final = {
    "userinfo_endpoint": ("GET", "no UserInfo: only the ID token describes the user"),
    "end_session_endpoint": ("GET", "a sign-out ends the session here and not at the provider"),
    "revocation_endpoint": ("POST", "refresh tokens are not revoked at a sign-out"),
    "check_session_iframe": (
        "GET",
        "the browser component cannot watch the provider's session",
    ),
    "introspection_endpoint": ("POST", "oidc.api(introspect=...) cannot be used"),
}
"""The method of each endpoint's request, and the consequence without the endpoint."""

_NOBODY_SIGNED_IN: Final = frozenset(
    {
        "login_required", "interaction_required", "consent_required",
        "account_selection_required",
    }
)  # fmt: skip
"""Errors for `prompt=none` that mean that the request is valid (Core 3.1.2.6)."""
_RARELY_NEEDED: Final = ("check_session_iframe", "introspection_endpoint")
_CLEAR_REFUSALS: Final = frozenset({"unsupported_grant_type", "invalid_dpop_proof"})
"""Errors for an invented code that every code would get."""

_NOTHING_THERE: Final = (404, 410)


async def optional_endpoints(
    metadata: ProviderMetadata, http: HTTPClient, settings: OIDCSettings
) -> AsyncIterator[Finding]:
    """Whether each endpoint responds, and the consequence if it does not."""
    for name, (method, without) in _OPTIONAL.items():
        url = getattr(metadata, name)
        if url is None:
            found = ok if name in _RARELY_NEEDED else warning
            yield found("endpoint", f"no {name}: {without}")
            continue
        # Only logins with UserInfo fail if an announced endpoint does not respond.
        is_needed = name == "userinfo_endpoint" and settings.fetch_userinfo
        missing = fault if is_needed else warning
        try:
            answer = await http.request(method, url, may_redirect=True)
        except OIDCError as error:
            yield missing("endpoint", f"{name}: {error.code}: {error.message}")
            continue
        text = f"{name}: {url} returned HTTP {answer.status}"
        if answer.status in _NOTHING_THERE:
            yield missing("endpoint", text)
        else:
            yield (ok if answer.status < 500 else warning)("endpoint", text)
    for explanation in metadata.ignored:
        yield warning("endpoint", f"{explanation}: it counts as absent")


async def client(settings: OIDCSettings, provider: Provider, redirect_uri: str) -> Finding:
    """Whether the client is accepted: then only the invented code is refused (RFC 6749 5.2).

    A fault is what every code would get; some providers have errors of their own for this one.
    """
    expected = "a client in order gets invalid_grant for an invented code"
    code = AuthorizationCode(secrets.token_urlsafe(24))
    try:
        key = DPoPKey.new() if settings.dpop else None
        grant = authorization_code_grant(code, redirect_uri, secrets.token_urlsafe(32))
        await provider.obtain(grant, key=key)
    except RefusedGrant:
        return ok("client", f"{settings.client_id} is accepted by the token endpoint")
    except RefusedRequest as refused:
        found = fault if refused.error in _CLEAR_REFUSALS else warning
        return found("client", f"{refused.code}: {refused.message}; {expected}")
    except OIDCError as error:
        is_clear = error.code is not Code.PROVIDER_STATUS
        said = f"{error.code}: {error.message}"
        return fault("client", said) if is_clear else warning("client", f"{said}; {expected}")
    return warning("client", "the token endpoint gave tokens for an invented code")


async def redirect_uri(
    settings: OIDCSettings,
    provider: Provider,
    http: HTTPClient,
    uri: str,
) -> Finding:
    """Whether an authorization request is accepted, by a request with `prompt=none`."""
    is_posted = settings.response_mode == "form_post"
    parameters = authorization_parameters(
        settings.extra_params,
        client_id=settings.client_id,
        redirect_uri=uri,
        scope=with_openid(settings.scope),
        state=secrets.token_urlsafe(16),
        nonce=secrets.token_urlsafe(16),
        code_challenge=code_challenge(secrets.token_urlsafe(32)),
        response_mode="form_post" if is_posted else None,
        prompt="none",
        max_age=settings.max_age,
    )
    try:
        url = await provider.authorization_url(parameters, is_pushed=settings.use_par)
        return _judged(await http.request("GET", url, may_redirect=True), uri, settings.scope)
    except ValueError:
        return fault("redirect URI", "the provider redirects to what is no URL")
    except OIDCError as error:
        return fault("redirect URI", f"{error.code}: {error.message}")


def _judged(answer: OPResponse, uri: str, scope: Sequence[str]) -> Finding:
    where, query = _authorization_response(answer, uri)
    error = query.get("error", "")
    if where == _split(uri)[0] and (not error or error in _NOBODY_SIGNED_IN):
        return ok("redirect URI", f"{uri} is accepted with these settings")
    if error:
        refused = AuthorizationRefused(error, query.get("error_description", ""))
        found = warning if error in TEMPORARY_ERRORS else fault
        advice = {
            "invalid_scope": f"; the setting scope asks for {' '.join(scope)}",
            "unauthorized_client": "; is this client allowed the authorization code flow?",
        }
        return found("redirect URI", f"{uri}: {refused.explanation}{advice.get(error, '')}")
    if answer.status >= 400:
        said = answer.refused_status().message
        # Some refuse every request with prompt=none: Spring (401), django-oauth-toolkit (500).
        found = warning if answer.status == 401 or answer.status >= 500 else fault
        return found("redirect URI", f"{uri}: is it registered? {said}")
    shown = f"a redirect to {where}" if where else "a page"
    return warning(
        "redirect URI",
        f"compare {uri} with what is registered: the provider returned prompt=none with {shown}",
    )


class _Form(HTMLParser):
    """The address and the fields of a page's form."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action, self.fields = "", dict[str, str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = values.get("action", "")
        elif tag == "input":
            self.fields[values.get("name", "")] = values.get("value", "")


def _authorization_response(answer: OPResponse, uri: str) -> tuple[str, dict[str, str]]:
    """Where the browser is sent, and the parameters; a form is that of `form_post` or no response.

    Form Post Response Mode 1.0, 2.
    """
    if answer.location:
        return _split(urljoin(answer.url, answer.location))
    form = _Form(answer.body.decode(errors="replace"))
    return (form.action, form.fields) if form.action == uri else ("", {})


def _split(url: str) -> tuple[str, dict[str, str]]:
    """Scheme, host and path; the parameters of query and fragment."""
    parts = urlsplit(url)
    where = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    return where, dict(parse_qsl(f"{parts.query}&{parts.fragment}"))
