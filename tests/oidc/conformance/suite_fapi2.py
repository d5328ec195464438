"""The suite as the provider of FAPI 2.0: requests are pushed, responses name their issuer."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from urllib.parse import parse_qsl

import httpx

from tests.oidc.conformance.suite_checks import Form
from tests.oidc.conformance.suite_keys import Members
from tests.oidc.conformance.suite_op import ISSUER, SuiteOP


@dataclass
class SecurityProfileOP(SuiteOP):
    """FAPI 2.0 Security Profile 5.3.2.2, with the client that `private_key_jwt` authenticates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pushed: dict[str, Form] = {}

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """As the suite answers, and to a pushed request."""
        if str(request.url) == f"{ISSUER}par":
            return self._pushed(request)
        return await super().answer(request)

    def metadata(self) -> Members:
        """FAPI 2.0 Security Profile 5.3.2.1."""
        return super().metadata() | {
            "pushed_authorization_request_endpoint": f"{ISSUER}par",
            "require_pushed_authorization_requests": True,
            "authorization_response_iss_parameter_supported": True,
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["private_key_jwt", "tls_client_auth"],
            "id_token_signing_alg_values_supported": ["PS256", "ES256", "EdDSA"],
        }

    def authorization_response(self, authorization: Form, code: str) -> Members:
        """RFC 9207 2."""
        return super().authorization_response(authorization, code) | {"iss": ISSUER}

    def authorization_request(self, request: httpx.Request) -> Form:
        """What was pushed; the browser brings its reference, once (RFC 9126 4)."""
        query = dict(request.url.params)
        if set(query) != {"client_id", "request_uri"}:
            self.faults.append("the browser brings more than client_id and request_uri")
        return self.pushed.pop(query["request_uri"])

    def _pushed(self, request: httpx.Request) -> httpx.Response:
        self.calls.append("pushed request")
        form = dict(parse_qsl(request.content.decode()))
        self.faults += self.client_check.faults(request, form, self.now())
        request_uri = f"urn:ietf:params:oauth:request_uri:{secrets.token_urlsafe(32)}"
        self.pushed[request_uri] = form
        return httpx.Response(201, json={"request_uri": request_uri, "expires_in": 60})
