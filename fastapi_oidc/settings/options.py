"""The settings as a pydantic model, and the objects that the other layers make from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import Field, SecretStr, ValidationError
from pydantic_core import PydanticUndefined
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from fastapi_oidc.clock import DEFAULT_DRIFT
from fastapi_oidc.errors import refused_signature
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.provider.http import PROVIDER_TIMEOUT
from fastapi_oidc.provider.network import HTTPOptions
from fastapi_oidc.session.cookies import CookieNames, KeyRing
from fastapi_oidc.session.session_cookie import DEFAULT_MAX_COOKIE_SIZE
from fastapi_oidc.settings import environment, rules
from fastapi_oidc.settings.faults import configuration_error

_FROM_ENVIRONMENT: Any = PydanticUndefined
"""Marks a required setting. A type checker takes it for a default: the environment may have it."""


class OIDCSettings(BaseSettings):
    """Settings of `OIDC`. Settings that are not passed are read from `OIDC_*` variables.

    Variables that the environment lacks are read from the file `.env`, if there is one here.
    A named registration reads its own variables: `OIDC_PARTNERS_CLIENT_ID` for
    `OIDCSettings(name="partners")`. Times are in seconds, sizes in bytes. In the environment, a
    list is JSON or words separated by spaces, `extra_params` is JSON, and `cookie_secret` is one
    secret or a JSON list. Raises ConfigurationError, which names every invalid or missing setting
    and shows no value.
    """

    model_config = SettingsConfigDict(
        env_file=".env",
        env_ignore_empty=True,
        str_strip_whitespace=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    # This must come first: the validation of other settings reads it.
    allow_insecure_http: bool = False

    issuer: rules.Issuer = Field(default=_FROM_ENVIRONMENT)
    """The OpenID Provider's issuer identifier, exactly as in its metadata."""
    allowed_tenants: rules.AllowedTenants = ()
    """The tenant ids for a Microsoft Entra issuer with `/common` or `/organizations`; `*`: all."""
    client_id: str = Field(default=_FROM_ENVIRONMENT, min_length=1)
    client_secret: rules.Secret | None = None
    client_private_key: rules.Secret | None = None
    """PEM or JWK, for `private_key_jwt`."""
    client_private_key_id: str | None = None
    client_assertion_algorithm: str | None = None
    # This must come after the settings that its validation reads.
    client_auth_method: rules.ClientAuthMethod = Field(default=None, validate_default=True)
    """None means `client_secret_basic` with a secret and `none` without."""
    client_certificate_key_file: str | None = None
    client_certificate_file: str | None = None
    """PEM file for mutual TLS (RFC 8705); it has the key, or `client_certificate_key_file` does."""
    ca_file: str | None = None
    """PEM file of the certificate authorities to trust in place of the system's."""
    client_assertion_audience: Literal["issuer", "token_endpoint"] = "issuer"

    cookie_secret: rules.Secrets = Field(default=_FROM_ENVIRONMENT)
    """At least 32 random bytes. With a list, the first secret seals and all of them open."""
    base_url: rules.BaseURL = Field(default=None, validate_default=True)
    """The application's scheme and host in browsers, such as `https://app.example.com`."""
    name: rules.InstanceName = environment.DEFAULT_NAME
    """The name of the registration. With it alone, cookies, routes and `request.state.<name>` have
    this name too.
    """
    trusted_origins: rules.Origins = ()
    """Other origins whose pages may use the session, for websockets and to change something."""

    scope: rules.Scope = ("openid", "profile", "email")
    extra_params: rules.Members = Field(default_factory=dict)
    response_mode: Literal["query", "form_post"] = "query"
    use_par: bool = False
    dpop: bool = False
    """Bind the tokens of each session to the session's own key (RFC 9449)."""
    max_age: int | None = Field(default=None, ge=0)
    fetch_userinfo: bool = True
    id_token_signing_algorithms: rules.Algorithms = ("RS256",)
    userinfo_signing_algorithms: rules.Algorithms | None = None
    """None means those of ID tokens."""
    trusted_id_token_audiences: rules.Words = ()
    front_channel_logout: bool = False
    """Mount the front-channel logout route; it needs a store."""
    logout_token_without_exp: bool = False
    """Accept logout tokens without `exp` for two minutes from their `iat`."""

    default_return_path: rules.ReturnPath = "/"
    post_logout_redirect_uri: rules.PostLogoutRedirectURI = "route"
    """`route` (the library's own, if it is mounted), `none`, or a URL."""
    max_cookie_size: int = Field(default=DEFAULT_MAX_COOKIE_SIZE, ge=500, le=4096)
    session_lifetime: int = Field(default=8 * 3600, ge=60, le=rules.LONGEST_LIFETIME)
    idle_timeout: int | None = Field(default=None, ge=60)
    """None means that a session without requests does not end early."""
    refresh_margin: int = Field(default=30, ge=0)
    default_access_token_lifetime: int = Field(default=3600, ge=1)
    """The lifetime to assume if the provider sends no `expires_in`."""
    clock_drift: int = Field(default=DEFAULT_DRIFT, ge=0, le=300)
    provider_timeout: float = Field(default=PROVIDER_TIMEOUT, gt=0, le=60)
    callback_timeout: float = Field(default=10.0, gt=0, le=60)
    """The time limit of each callback of the application during a refresh."""
    revoke_on_local_logout: bool = True
    logout_without_session: bool = False
    """Whether a sign-out without a session also goes to the provider."""

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        def __init__(self, **values: Any) -> None:
            options, usual = type(self).model_fields, environment.prefix_of(values.get("name"))
            prefix = values.setdefault("_env_prefix", usual)
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise configuration_error(
                    error, options, lambda name: name if name in values else prefix + name.upper()
                ) from None

        def __setattr__(self, name: str, value: object) -> None:
            """Raises TypeError without the value, which may be a secret: pydantic's quotes it."""
            raise TypeError(f"settings cannot be changed: model_copy(update={{{name!r}: ...}})")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """A `.env` file may have other variables, for example those of another registration."""
        if isinstance(dotenv_settings, DotEnvSettingsSource):
            file, prefix = dotenv_settings.env_file, dotenv_settings.env_prefix
            dotenv_settings = environment.FileOfVariables(settings_cls, file, env_prefix=prefix)
        for source in (env_settings, dotenv_settings):
            if isinstance(source, EnvSettingsSource):
                environment.report_unread(source)
        return init_settings, env_settings, dotenv_settings, file_secret_settings

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """These settings with the changes of `update`, validated.

        A copy for another issuer must set its own credentials. Raises ConfigurationError.
        """
        rules.require_own_credentials(vars(self), update or {})
        copy = super().model_copy(update=update, deep=deep)
        try:
            # The initializer would read the environment.
            type(self).__pydantic_validator__.validate_python({**vars(copy)}, self_instance=copy)
        except ValidationError as error:
            raise configuration_error(error, type(self).model_fields) from None
        return copy

    def algorithms(self) -> frozenset[str]:
        """The pinned algorithms of ID and logout tokens (Core 3.1.3.7 rule 7)."""
        return rules.algorithms_of(self.id_token_signing_algorithms, vars(self))

    def userinfo_algorithms(self) -> frozenset[str]:
        """The pinned algorithms of signed UserInfo (Core 5.3.2)."""
        names = self.userinfo_signing_algorithms
        return self.algorithms() if names is None else rules.algorithms_of(names, vars(self))

    def trusted_issuer(self) -> TrustedIssuer:
        """The issuer whose messages are accepted, or those of its allowed tenants."""
        return rules.issuer_of(self.allowed_tenants, vars(self))

    def http_options(self) -> HTTPOptions:
        """The options of the connections to the provider; the argument `http` replaces them."""
        return HTTPOptions(
            ca_file=self.ca_file,
            client_certificate_file=self.client_certificate_file,
            client_certificate_key_file=self.client_certificate_key_file,
        )

    def authentication(self) -> ClientAuthentication:
        """The client's authentication method (Core 9)."""
        return rules.authentication_of(self.client_auth_method, vars(self))

    def key_ring(self) -> KeyRing:
        """The keys derived from `cookie_secret`."""
        return rules.key_ring(cast("tuple[SecretStr, ...]", self.cookie_secret))

    def cookie_names(self, name: str | None = None) -> CookieNames:
        """The names of the cookies, after `name` or that of the settings."""
        return CookieNames(name or self.name, secure=(self.base_url or "").startswith("https:"))


OIDCSettings.__signature__ = refused_signature(
    "Depends(OIDCSettings) would read the settings from the request: make OIDCSettings() once, and "
    "read oidc.settings"
)
