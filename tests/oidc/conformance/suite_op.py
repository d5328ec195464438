"""An OpenID Provider that plays the part of the OpenID Foundation's conformance suite.

It knows nothing of the library it tests. It is right by default; a test makes it misbehave in the
one way that its module is about, by editing one kind of message.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import parse_qsl

import httpx

from tests.oidc.conformance.suite_checks import (
    ClientCheck,
    Form,
    Registration,
    authorization_faults,
    bearer_faults,
    code_faults,
)
from tests.oidc.conformance.suite_keys import Members, SuiteKeys
from tests.oidc.conformance.suite_messages import Edit, Message, delivered

ORIGIN = "https://suite.test"
ISSUER = f"{ORIGIN}/test/a/rp/"
SUB = "user-subject-1234531"
SID = "sid-1"
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
ID_TOKEN_LIFETIME = 300

PROFILE: Members = {
    "name": "Demo T. User",
    "preferred_username": "d.tu",
    "email": "user@example.com",
    "email_verified": False,
}
SCOPE_OF = {
    "name": "profile",
    "preferred_username": "profile",
    "email": "email",
    "email_verified": "email",
}

SignToken: TypeAlias = Callable[[Members], str]


@dataclass
class SuiteOP:
    """One run of one module; `calls` are the requests in order, `faults` what the RP did wrong.

    The suite itself never sends `expires_in`.
    """

    client: Registration
    now: Callable[[], float]
    edits: dict[Message, Edit] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    before_token: Callable[[], None] | None = None
    sign_id_token: SignToken | None = None
    sign_logout_token: SignToken | None = None
    signs_userinfo: bool = False
    expires_in: int | None = None
    relying_party: httpx.AsyncBaseTransport | None = None
    backchannel_answer: httpx.Response | None = None

    def __post_init__(self) -> None:
        self.keys = SuiteKeys(self.client.client_secret)
        self.jwks_path = f"/test/a/rp/jwks-{secrets.token_hex(4)}"
        self.client_check = ClientCheck(self.client, frozenset({ISSUER, f"{ISSUER}token"}))
        self.authorizations: dict[str, Form] = {}
        self.last_request: Form = {}
        self.id_tokens: list[str] = []
        self.access_token = ""
        self.refresh_token = ""
        self.userinfo_tokens: list[str] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """The answer to any request, of the RP or of the browser."""
        path = request.url.path.removeprefix("/test/a/rp/")
        if path.startswith("mtls/"):
            self.aliases.append(path)
            path = path.removeprefix("mtls/")
        if request.url.path == self.jwks_path:
            return self.called("jwks", self._edited("jwks", self.keys.document()))
        match path:
            case ".well-known/openid-configuration":
                return self.called("metadata", self._edited("metadata", self.metadata()))
            case "authorize":
                return self._authorize(request)
            case "token":
                return self._token(request)
            case "userinfo":
                return self._userinfo(request)
            case "end_session":
                return await self._end_session(request)
        return httpx.Response(404)

    def called(self, call: str, document: Members) -> httpx.Response:
        self.calls.append(call)
        return httpx.Response(200, json=document)

    def _edited(self, message: Message, members: Members) -> Members:
        edit = self.edits.get(message)
        return edit(members) if edit else members

    def metadata(self) -> Members:
        """With everything that trips a careless RP (the traps of the suite's own metadata)."""
        return {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}authorize",
            "token_endpoint": f"{ISSUER}token",
            "jwks_uri": f"{ORIGIN}{self.jwks_path}",
            "userinfo_endpoint": f"{ISSUER}userinfo",
            "end_session_endpoint": f"{ISSUER}end_session",
            "response_types_supported": ["id_token code", "code", "id_token", "token id_token"],
            "grant_types_supported": ["authorization_code", "implicit"],
            "subject_types_supported": ["public", "pairwise"],
            "id_token_signing_alg_values_supported": ["none", "RS256", "PS512", "ES256K", "EdDSA"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
            "claims_parameter_supported": True,
            "backchannel_logout_supported": True,
            "backchannel_logout_session_supported": True,
        }

    def _authorize(self, request: httpx.Request) -> httpx.Response:
        self.calls.append("authorization")
        query = self.authorization_request(request)
        self.faults += authorization_faults(query, self.client)
        code = secrets.token_urlsafe(24)
        self.authorizations[code] = query
        self.last_request = query
        response = self._edited("authorization_response", self.authorization_response(query, code))
        return delivered(self.client.redirect_uri, response, query.get("response_mode", "query"))

    def authorization_request(self, request: httpx.Request) -> Form:
        """The parameters that the browser brings."""
        return dict(request.url.params)

    def authorization_response(self, authorization: Form, code: str) -> Members:
        """What the browser brings back."""
        return {"code": code, "state": authorization["state"]}

    def _token(self, request: httpx.Request) -> httpx.Response:
        self.calls.append("token")
        form = dict(parse_qsl(request.content.decode()))
        self.faults += self.client_check.faults(request, form, self.now())
        if self.before_token:
            self.before_token()
        if form["grant_type"] == "refresh_token":
            return self._refreshed(form)
        authorization = self.authorizations.pop(form["code"])
        self.faults += code_faults(form, authorization)
        claims = self.id_token_claims() | {"nonce": authorization["nonce"]}
        return self._issued(self._edited("id_token", claims))

    def _refreshed(self, form: Form) -> httpx.Response:
        if form["refresh_token"] != self.refresh_token:
            self.faults.append("not the last refresh token")
        return self._issued(self._edited("refreshed_id_token", self.id_token_claims()))

    def id_token_claims(self) -> Members:
        """The claims of an ID token but its nonce."""
        now = int(self.now())
        return {
            "iss": ISSUER,
            "sub": SUB,
            "aud": self.client.client_id,
            "exp": now + ID_TOKEN_LIFETIME,
            "iat": now,
            "sid": SID,
        }

    def _issued(self, claims: Members) -> httpx.Response:
        self.access_token, self.refresh_token = secrets.token_urlsafe(), secrets.token_urlsafe()
        self.id_tokens.append(self._signed(claims))
        answer: Members = {
            "access_token": self.access_token,
            "token_type": "Bearer",
            "refresh_token": self.refresh_token,
            "id_token": self.id_tokens[-1],
        }
        if self.expires_in is not None:
            answer["expires_in"] = self.expires_in
        return httpx.Response(200, json=self._edited("token_response", answer))

    def _signed(self, claims: Members) -> str:
        if self.sign_id_token:
            return self.sign_id_token(claims)
        return self.keys.sign(claims, self.client.id_token_signed_response_alg)

    def _userinfo(self, request: httpx.Request) -> httpx.Response:
        self.calls.append("userinfo")
        self.faults += bearer_faults(request)
        self.userinfo_tokens.append(request.headers["authorization"].removeprefix("Bearer "))
        scope = self.last_request["scope"].split()
        granted = {name: value for name, value in PROFILE.items() if SCOPE_OF[name] in scope}
        claims = self._edited("userinfo", {"sub": SUB, **granted})
        if not self.signs_userinfo:
            return httpx.Response(200, json=claims)
        jwt = self.keys.sign({"iss": ISSUER, "aud": self.client.client_id, **claims}, "RS256")
        return httpx.Response(200, text=jwt, headers={"Content-Type": "application/jwt"})

    async def _end_session(self, request: httpx.Request) -> httpx.Response:
        self.calls.append("end_session")
        query = dict(request.url.params)
        self.faults += self._logout_faults(query)
        if self.sign_logout_token:
            # The suite posts while it is still answering the browser.
            await self.post_logout_token(self.sign_logout_token(self._logout_claims()))
        back = self._edited("logout_return", {"state": query["state"]})
        return delivered(query["post_logout_redirect_uri"], back, "query")

    def _logout_faults(self, query: Form) -> Iterator[str]:
        """RP-Initiated Logout 1.0 2."""
        if query.get("id_token_hint") not in self.id_tokens:
            yield "id_token_hint is none of the ID tokens"
        if query.get("post_logout_redirect_uri") != self.client.post_logout_redirect_uri:
            yield "post_logout_redirect_uri is not registered"

    def _logout_claims(self) -> Members:
        now = int(self.now())
        claims: Members = {
            "iss": ISSUER,
            "sub": SUB,
            "aud": self.client.client_id,
            "jti": secrets.token_urlsafe(),
            "sid": SID,
            "events": {LOGOUT_EVENT: {}},
            "iat": now,
            "exp": now + 120,
            "ignored_claim": "ignored",
        }
        return self._edited("logout_token", claims)

    async def post_logout_token(self, logout_token: str) -> None:
        """Back-Channel Logout 1.0 2.5, with a field that is to be ignored."""
        form = {"logout_token": logout_token, "ignored_parameter": "ignored"}
        async with httpx.AsyncClient(transport=self.relying_party) as client:
            uri = self.client.backchannel_logout_uri
            self.backchannel_answer = await client.post(uri, data=form)
