"""The Relying Party under test: a FastAPI app with the library, a browser, and the suite."""

from __future__ import annotations

import html
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

import httpx
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fastapi import FastAPI

from fastapi_oidc import OIDC, Clock, Code, Event, HTTPOptions, OIDCSettings, StandardIdentity
from tests.oidc.conformance.suite_checks import Registration
from tests.oidc.conformance.suite_op import ISSUER, ORIGIN, SUB, SuiteOP
from tests.oidc.protocol.jose.keypairs import rsa_key
from tests.oidc.world import Time, application

BASE_URL = "https://rp.test"


@dataclass
class RelyingParty:
    """One registered client and one browser."""

    op: SuiteOP
    oidc: OIDC[StandardIdentity, None]
    app: FastAPI
    time: Time
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.browser = self.new_browser()

    def new_browser(self) -> httpx.AsyncClient:
        """Another browser, without cookies."""
        return httpx.AsyncClient(
            base_url=BASE_URL,
            transport=httpx.ASGITransport(self.app),
            mounts={ORIGIN: httpx.MockTransport(self.op.answer)},
            follow_redirects=True,
        )

    async def sign_in(self, browser: httpx.AsyncClient | None = None) -> httpx.Response:
        """Where a login ends: on `/me`, or with a refusal."""
        client = browser or self.browser
        answer = await client.get("/auth/login", params={"return_to": "/me"})
        if answer.url.host in ORIGIN:
            answer = await submitted(client, answer)
        return answer

    async def is_signed_in(self, browser: httpx.AsyncClient | None = None) -> bool:
        """Whether the application knows the user."""
        return (await (browser or self.browser).get("/me")).status_code == 200

    async def log_out(self) -> httpx.Response:
        """Where a logout ends."""
        return await self.browser.post("/auth/logout")

    async def must_accept(self) -> None:
        """A login works, and UserInfo was asked once, with the access token of this login."""
        answer = await self.sign_in()
        assert answer.status_code == 200, answer.text
        assert answer.json()["sub"] == SUB
        assert self.op.userinfo_tokens == [self.op.access_token]
        assert self.op.faults == []

    async def must_refuse(self, code: Code) -> None:
        """A login ends with this error, with no session and no further call to the provider."""
        answer = await self.sign_in()
        assert answer.json()["code"] == code
        assert answer.is_error
        assert self.events[-1].code is code
        assert not await self.is_signed_in()
        assert "userinfo" not in self.op.calls
        assert self.op.faults == []


def relying_party(
    *,
    token_endpoint_auth_method: str = "client_secret_basic",
    id_token_signed_response_alg: str = "RS256",
    token_endpoint_auth_signing_alg: str = "RS256",
    http: HTTPOptions | None = None,
    suite: type[SuiteOP] = SuiteOP,
    **settings: Any,
) -> RelyingParty:
    """A client that is registered so, and configured accordingly."""
    time = Time()
    registration = Registration(
        client_id="client: with % and +",
        client_secret=secrets.token_urlsafe(48) + ": %+é",
        redirect_uri=f"{BASE_URL}/auth/callback",
        post_logout_redirect_uri=f"{BASE_URL}/auth/logged-out",
        backchannel_logout_uri=f"{BASE_URL}/auth/backchannel-logout",
        token_endpoint_auth_method=token_endpoint_auth_method,
        id_token_signed_response_alg=id_token_signed_response_alg,
        token_endpoint_auth_signing_alg=token_endpoint_auth_signing_alg,
    )
    op = suite(registration, time)
    events: list[Event] = []
    oidc: OIDC[StandardIdentity, None] = OIDC(
        _settings(registration, settings),
        back_channel_logout_store="memory",
        on_event=events.append,
        http=http,
        transport=httpx.MockTransport(op.answer),
        clock=Clock(read=time),
    )
    app = application(oidc, None, {})
    op.relying_party = httpx.ASGITransport(app)
    return RelyingParty(op, oidc, app, time, events)


def _settings(client: Registration, settings: dict[str, Any]) -> OIDCSettings:
    pem = rsa_key("client").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = client.token_endpoint_auth_method == "none"
    chosen: dict[str, Any] = {
        "issuer": ISSUER,
        "client_id": client.client_id,
        "client_secret": None if public else client.client_secret,
        "client_auth_method": client.token_endpoint_auth_method,
        "client_private_key": pem.decode(),
        "client_assertion_algorithm": (
            client.token_endpoint_auth_signing_alg
            if client.token_endpoint_auth_method == "private_key_jwt"
            else None
        ),
        "id_token_signing_algorithms": [client.id_token_signed_response_alg],
        "cookie_secret": secrets.token_urlsafe(32),
        "base_url": BASE_URL,
    }
    return OIDCSettings(**(chosen | settings))


async def submitted(browser: httpx.AsyncClient, page: httpx.Response) -> httpx.Response:
    """What a browser does with a form that submits itself."""
    action = re.findall(r'action="(.*?)"', page.text)[0]
    inputs = re.findall(r'<input name="(.*?)" value="(.*?)">', page.text)
    return await browser.post(action, data={name: html.unescape(value) for name, value in inputs})
