"""An API in an application where nobody signs in."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Unpack
from urllib.parse import urlsplit

import httpx
from typing_extensions import TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import misconfigured
from fastapi_oidc.events import EventListener
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.provider.network import HTTPOptions
from fastapi_oidc.session.model import StandardIdentity
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.api import API
from fastapi_oidc.web.api_options import APIOptions
from fastapi_oidc.web.outgoing import Outgoing

Identity = TypeVar("Identity", default=StandardIdentity)


class StandaloneAPI(API[Identity], Outgoing[Identity, None]):
    """An API in an application without sign-in and sessions.

        api = StandaloneAPI("https://op.example.com", "https://api.example.com")
        app.add_middleware(OIDCMiddleware, oidc=api)
        app.include_router(api.router)

    `audience` or `resource` is the URL of the API. The other `options` are those of `oidc.api`. The
    client's id and secret are for introspection and token exchange; `accept_plain_jwt` needs the id
    too, to know ID tokens. Further settings are read from variables such as `OIDC_API_CA_FILE`.
    Raises ConfigurationError.
    """

    function = "StandaloneAPI"

    def __init__(
        self,
        issuer: str,
        audience: str,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        allow_insecure_http: bool = False,
        downstream_apis: Sequence[DownstreamAPI] = (),
        on_event: EventListener | None = None,
        http: HTTPOptions | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
        **options: Unpack[APIOptions[Identity]],
    ) -> None:
        settings = OIDCSettings(
            name="api",
            issuer=issuer,
            client_id=client_id or audience,
            client_secret=client_secret,
            # Nothing is sealed that another process or a later one could read.
            cookie_secret=secrets.token_urlsafe(48),
            base_url=_origin(options.get("resource") or audience),
            allow_insecure_http=allow_insecure_http,
        )
        oidc: OIDC[Identity] = OIDC(
            settings,
            downstream_apis=downstream_apis,
            on_event=on_event,
            http=http,
            transport=transport,
            clock=clock,
        )
        registrations = oidc.registrations.without_sign_in()
        super().__init__(registrations, oidc.require_auth, oidc.require_csrf, audience, **options)


def _origin(url: str) -> str:
    """The scheme and host of the API's URL, which the proofs of bound tokens name."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.netloc:
        raise misconfigured(
            "StandaloneAPI needs the URL of the API, as audience or else as resource: "
            'StandaloneAPI(issuer, audience, resource="https://api.example.com")',
        )
    return f"{parts.scheme}://{parts.netloc}"
