"""Names of other libraries and of the specifications, and what they are called here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_BASE_URL: Final = "base_url and the prefix of the router make the redirect URI"
_DISCOVERY: Final = "the metadata of the issuer has it"
_PKCE: Final = "PKCE with S256 is always used"
_REQUIRE: Final = 'endpoints name their scopes: api.require("machines:read")'

PEER_NAMES: Final[Mapping[str, str]] = {
    # Authlib, and SessionMiddleware of Starlette
    "server_metadata_url": "issuer",
    "client_kwargs": "scope",
    "secret_key": "cookie_secret",
    "authorize_url": _DISCOVERY,
    "access_token_url": _DISCOVERY,
    "jwks": _DISCOVERY,
    "leeway": "clock_drift",
    # fastapi-users
    "secret": "client_secret or cookie_secret",
    "state_secret": "cookie_secret",
    "lifetime_seconds": "session_lifetime",
    "base_scopes": "scope",
    "cookie_name": "name, from which the names of the cookies are made",
    "cookie_secure": "cookies are Secure unless base_url is http",
    "cookie_max_age": "session_lifetime",
    # Auth.js and NextAuth
    "auth_secret": "cookie_secret",
    "nextauth_secret": "cookie_secret",
    "nextauth_url": "base_url",
    "auth_url": "base_url",
    "well_known": "issuer",
    "wellknown": "issuer",
    "id": "client_id",
    "checks": _PKCE,
    "session_max_age": "session_lifetime",
    # oauth2-proxy
    "issuer_url": "issuer",
    "oidc_issuer_url": "issuer",
    "redirect_url": _BASE_URL,
    "cookie_expire": "session_lifetime",
    "cookie_refresh": "refreshes follow the access token",
    "provider_ca_files": "ca_file",
    "ssl_insecure_skip_verify": "ca_file, with the authority of the provider's certificate",
    "extra_jwt_issuers": "issuers of oidc.api(...)",
    "allowed_groups": "oidc.require(lambda user: ...)",
    # Spring Security, ASP.NET and MSAL
    "issuer_uri": "issuer",
    "authority": "issuer",
    "metadata_address": "issuer",
    "client_authentication_method": "client_auth_method",
    "user_name_attribute": "resolve_identity",
    "callback_path": _BASE_URL,
    "audiences": "oidc.api(audience=...)",
    # the specifications (OpenID Connect, RFC 7591, RFC 8414)
    "redirect_uri": _BASE_URL,
    "redirect_uris": _BASE_URL,
    "callback_url": _BASE_URL,
    "scopes": "scope",
    "audience": "oidc.api(audience=...), or extra_params for logins",
    "resource": "extra_params for logins, or oidc.api(resource=...)",
    "token_endpoint_auth_method": "client_auth_method",
    "token_endpoint_auth_signing_alg": "client_assertion_algorithm",
    "id_token_signed_response_alg": "id_token_signing_algorithms",
    "userinfo_signed_response_alg": "userinfo_signing_algorithms",
    "require_pushed_authorization_requests": "use_par",
    "dpop_bound_access_tokens": "dpop",
    "post_logout_redirect_uris": "post_logout_redirect_uri",
    "default_max_age": "max_age",
    "default_acr_values": "oidc.require_acr(...)",
    "acr_values": "oidc.require_acr(...) or api.require(acr_values=...)",
    "prompt": "extra_params, or LoginOptions for one login",
    "discovery_url": "issuer",
    "authorization_endpoint": _DISCOVERY,
    "token_endpoint": _DISCOVERY,
    "jwks_uri": _DISCOVERY,
    "end_session_endpoint": _DISCOVERY,
    "use_pkce": _PKCE,
    "pkce": _PKCE,
    "code_challenge_method": _PKCE,
    # APIs
    "issuer": "issuers, in addition to the issuer of the settings",
    "introspection": "introspect",
    "introspection_endpoint": _DISCOVERY,
    "required_scopes": _REQUIRE,
    "required_scope": _REQUIRE,
    "verify_aud": "the audience is always checked",
}
"""Each name in lower case with underscores, and the name here, or a sentence."""


def hint_for(name: str, known: Collection[str]) -> str | None:
    """What `name` is called here, as a question or a sentence; None if nothing is like it.

    `known` are the names that are accepted where `name` was written.
    """
    word = name.lower().replace("-", "_")
    meant = PEER_NAMES.get(word)
    if meant is not None and " " in meant:
        return meant
    likely = [meant] if meant in known else get_close_matches(word, known, n=1)
    return f"is {likely[0]} meant?" if likely else meant


def require_known(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError, with the likely name, for a keyword argument that is not `known`.

    For functions with `**options: Unpack[...]`, which Python itself does not check.
    """
    for name in given:
        if name not in known:
            hint = hint_for(name, known) or f"known are {', '.join(sorted(known))}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: {hint}")
