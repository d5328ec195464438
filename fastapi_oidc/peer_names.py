"""Names of other libraries and of the specifications, and what they are called here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_NAMES: Final[Mapping[str, str]] = {
    "issuer": (
        "server_metadata_url well_known wellknown issuer_url oidc_issuer_url issuer_uri "
        "authority metadata_address discovery_url"
    ),
    "scope": "client_kwargs base_scopes scopes",
    "cookie_secret": "secret_key state_secret auth_secret nextauth_secret",
    "the metadata of the issuer has it": (
        "authorize_url access_token_url jwks authorization_endpoint token_endpoint jwks_uri "
        "end_session_endpoint introspection_endpoint"
    ),
    "clock_drift": "leeway",
    "client_secret or cookie_secret": "secret",
    "idle_timeout or provider_timeout": "timeout",
    "session_lifetime": "lifetime_seconds cookie_max_age session_max_age cookie_expire",
    "name, from which the names of the cookies are made": "cookie_name",
    "cookies are Secure unless base_url is http": "cookie_secure",
    "hosts share no cookie: each signs in at the provider": "cookie_domain session_cookie_domain",
    "base_url": "nextauth_url auth_url",
    "client_id": "id",
    "PKCE with S256 is always used": "checks use_pkce pkce code_challenge_method",
    "base_url and the prefix of the router make the redirect URI": (
        "redirect_url callback_path redirect_uri redirect_uris callback_url"
    ),
    "refreshes follow the access token": "cookie_refresh",
    "ca_file": "provider_ca_files",
    "ca_file, with the authority of the provider's certificate": "ssl_insecure_skip_verify",
    "issuers of oidc.api(...)": "extra_jwt_issuers",
    "oidc.require(lambda user: ...)": "allowed_groups",
    "client_auth_method": "client_authentication_method token_endpoint_auth_method",
    "resolve_identity": "user_name_attribute",
    "oidc.api(audience=...)": "audiences",
    "oidc.api(audience=...), or extra_params for logins": "audience",
    "extra_params for logins, or oidc.api(resource=...)": "resource",
    "client_assertion_algorithm": "token_endpoint_auth_signing_alg",
    "id_token_signing_algorithms": "id_token_signed_response_alg",
    "userinfo_signing_algorithms": "userinfo_signed_response_alg",
    "use_par": "require_pushed_authorization_requests",
    "dpop": "dpop_bound_access_tokens",
    "post_logout_redirect_uri": "post_logout_redirect_uris",
    "max_age": "default_max_age",
    "oidc.require_acr(...)": "default_acr_values",
    "oidc.require_acr(...) or api.require(acr_values=...)": "acr_values",
    "extra_params, or LoginOptions for one login": "prompt",
    "issuers, in addition to the issuer of the settings": "issuer",
    "introspect": "introspection",
    'endpoints name their scopes: api.require("machines:read")': "required_scopes required_scope",
    "the audience is always checked": "verify_aud",
    "a store is passed in code: OIDC(..., session_store=...)": (
        "session_store back_channel_logout_store refresh_lock store redis redis_url database_url"
    ),
}
"""What it is called here (a name, or a sentence), with its names elsewhere: in Authlib and
Starlette, fastapi-users, Auth.js and NextAuth, oauth2-proxy, Spring Security, ASP.NET, MSAL and the
specifications (OpenID Connect, RFC 7591, RFC 8414). In lower case with underscores.
"""

_MEMBERS: Final[Mapping[str, str]] = {
    "write app.include_router(oidc.router, prefix='/auth')": "_contains_router routes",
    "is oidc.require_auth meant?": (
        "login_required require_login requires_auth require_user_login current_user "
        "get_current_user access_token_required protect"
    ),
    "is oidc.optional_user meant?": "get_current_user_optional get_user user",
    "is oidc.login meant?": "authorize_redirect signin sign_in authorize",
    "is oidc.logout meant?": "signout sign_out logout_user",
    "oidc.router has the callback": (
        "authorize_access_token fetch_access_token fetch_token parse_id_token"
    ),
    "is oidc.user_info meant?": "userinfo",
    "is oidc.require_role meant?": "has_role require_roles role_required",
    "is oidc.auth(session) meant?": "token get_token get_access_token",
}
"""What members are called here, with their names elsewhere, in the same libraries."""


def _by_name(table: Mapping[str, str]) -> Mapping[str, str]:
    return {name: meant for meant, names in table.items() for name in names.split()}


PEER_NAMES: Final = _by_name(_NAMES)
PEER_MEMBERS: Final = _by_name(_MEMBERS)


def hint_for(name: str, known: Collection[str], similarity: float = 0.6) -> str | None:
    """What `name` is called here, as a question or a sentence; None if nothing is like it.

    `known` are the names that are accepted where `name` was written.
    """
    word = name.lower().replace("-", "_")
    meant = PEER_NAMES.get(word)
    if meant is not None and " " in meant:
        return meant
    likely = [meant] if meant in known else get_close_matches(word, known, 1, similarity)
    return f"is {likely[0]} meant?" if likely else meant


def require_known(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError, with the likely name, for a keyword argument that is not `known`.

    For functions with `**options: Unpack[...]`, which Python itself does not check.
    """
    for name in given:
        if name not in known:
            hint = hint_for(name, known) or f"known are {', '.join(sorted(known))}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: {hint}")
