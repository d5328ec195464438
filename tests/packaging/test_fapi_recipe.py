"""The settings of docs/conformance.md for the FAPI 2.0 Security Profile sign a user in."""

from __future__ import annotations

import re
import secrets
import shlex

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fastapi_oidc import OIDC, OIDCSettings
from fastapi_oidc.testing import (
    AuthorizationRequested,
    DevClient,
    DevProvider,
    DevUser,
    TokensIssued,
    sign_in,
)
from tests.oidc.world import BASE_URL, application
from tests.packaging.built import REPOSITORY


async def test_the_settings_of_the_page_sign_a_user_in(monkeypatch: pytest.MonkeyPatch) -> None:
    key = generate_private_key(65537, 2048)
    page = (REPOSITORY / "docs/conformance.md").read_text().partition("## FAPI 2.0 in one step")[2]
    block = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0]
    chosen = dict(line.split("=", 1) for line in shlex.split(block))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    op = DevProvider(
        users=[DevUser("alice")],
        clients=[
            DevClient(
                client_id="app",
                redirect_uris=[f"{BASE_URL}/auth/callback"],
                token_endpoint_auth_method="private_key_jwt",
                public_key=public.decode(),
                id_token_signed_response_alg="PS256",
                require_pushed_authorization_requests=True,
                dpop_bound_access_tokens=True,
            )
        ],
    )
    common = {
        "OIDC_ISSUER": op.issuer,
        "OIDC_CLIENT_ID": "app",
        "OIDC_COOKIE_SECRET": secrets.token_urlsafe(32),
        "OIDC_BASE_URL": BASE_URL,
    }
    for name, value in (chosen | common | {"OIDC_CLIENT_PRIVATE_KEY": pem}).items():
        monkeypatch.setenv(name, value)
    oidc = OIDC(OIDCSettings(), transport=httpx.ASGITransport(op.app))
    async with op.browser(application(oidc, None, {}), base_url=BASE_URL) as browser:
        answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    assert answer.json()["sub"] == "alice"
    assert [asked.pushed for asked in op.record.of(AuthorizationRequested)] == [True]
    assert len(op.record.of(TokensIssued)) == 1
