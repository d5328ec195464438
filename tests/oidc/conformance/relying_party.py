"""The Relying Party under test: the library in an application, and a provider that errs.

The provider is right by default; a test makes it misbehave in the one way that its module is about,
by editing one kind of message. What the Relying Party does wrong the provider refuses, and records.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx
from pydantic import JsonValue

from fastapi_oidc import Code
from fastapi_oidc.testing import Refused, UserInfoServed, sign_in
from fastapi_oidc.testing.faults import Message
from tests.oidc.protocol.jose.keypairs import Sign, compact, private_pem, public_pem, rsa_key
from tests.oidc.testing.bare_client import jwt_parts
from tests.oidc.world import LOGIN_URL, World, make_world

Members: TypeAlias = dict[str, JsonValue]
Edit: TypeAlias = Callable[[Members], Members]
Refusals: TypeAlias = Mapping[str, tuple[Edit, Code]]
"""By the name of a module, what it changes and the error that must follow."""

CLIENT_ID = "client: with % and +"
METADATA = "/.well-known/openid-configuration"
TRAPS: Members = {
    "response_types_supported": ["id_token code", "code", "id_token", "token id_token"],
    "grant_types_supported": ["authorization_code", "implicit"],
    "subject_types_supported": ["public", "pairwise"],
    "id_token_signing_alg_values_supported": ["none", "RS256", "PS512", "ES256K", "EdDSA"],
    "claims_parameter_supported": True,
}
"""What trips a careless Relying Party (the traps of the suite's own metadata)."""


def without(*names: str) -> Edit:
    """The edit that takes members away."""
    return lambda members: {name: members[name] for name in members if name not in names}


def with_members(**members: JsonValue) -> Edit:
    """The edit that sets members."""
    return lambda original: original | members


def with_suffix(name: str, suffix: str) -> Edit:
    """The edit that appends to the text of one member."""
    return lambda original: original | {name: f"{original[name]}{suffix}"}


def with_unnamed_keys(*others: Members) -> Edit:
    """The edit that publishes `others` and the provider's keys, all of them without names."""
    unnamed = without("kid", "alg")

    def edit(document: Members) -> Members:
        keys = document["keys"]
        assert isinstance(keys, list)
        return {"keys": [unnamed(key) for key in (*others, *keys) if isinstance(key, dict)]}

    return edit


class Network(httpx.AsyncBaseTransport):
    """The provider as the application's server reaches it, also at its aliases below `/mtls`."""

    inner: httpx.AsyncBaseTransport

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        url = request.url.copy_with(path=request.url.path.removeprefix("/mtls"))
        sent = httpx.Request(request.method, url, headers=request.headers, stream=request.stream)
        return await self.inner.handle_async_request(sent)


@dataclass
class RelyingParty:
    """One registered client and one browser; `paths` are the requests of its server, in order."""

    world: World
    paths: list[str]
    logins: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.browser = self.world.browser()

    def edit(self, message: Message, edit: Edit) -> None:
        """Let the provider change every such message from now on."""
        self.world.op.edits.put(message, edit)

    def sign_id_tokens(self, header: Members, sign: Sign) -> None:
        """Let ID tokens have another header and signature."""

        def signed(response: Members) -> Members:
            _, claims = jwt_parts(str(response["id_token"]))
            return response | {"id_token": compact(header, claims, sign)}

        self.edit("token_response", signed)

    def same_user_elsewhere(self) -> httpx.AsyncClient:
        """A browser that has this one's session at the provider, and none at the application."""
        other = self.world.browser()
        for cookie in self.browser.cookies.jar:
            if cookie.domain == "op.test":
                other.cookies.jar.set_cookie(cookie)
        return other

    async def sign_in(self, browser: httpx.AsyncClient | None = None) -> httpx.Response:
        """Where a login ends: on `/me`, or with a refusal."""
        return await sign_in(browser or self.browser, LOGIN_URL, user="alice")

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
        assert answer.json()["sub"] == "alice"
        self.logins += 1
        assert len(self.world.op.record.of(UserInfoServed)) == self.logins
        self.must_have_erred_never()

    async def must_refuse(self, code: Code) -> None:
        """A login ends with this error, with no session and no further call to the provider."""
        answer = await self.sign_in()
        assert answer.json()["code"] == code
        assert answer.is_error
        assert self.world.events[-1].code is code
        assert not await self.is_signed_in()
        assert self.world.op.record.calls["userinfo"] == 0
        self.must_have_erred_never()

    def must_have_erred_never(self) -> None:
        """The provider had nothing to refuse."""
        assert self.world.op.record.of(Refused) == []


def relying_party(
    *,
    settings: dict[str, Any] | None = None,
    client: dict[str, Any] | None = None,
    signs: str = "RS256",
    **options: Any,
) -> RelyingParty:
    """A client that is registered so, and configured accordingly; ID tokens have `signs`."""
    network, secret = Network(), secrets.token_urlsafe(48) + ": %+é"
    named = {"client_id": CLIENT_ID, "client_secret": secret}
    chosen = named | {"id_token_signing_algorithms": [signs]}
    registered = named | {"id_token_signed_response_alg": signs}
    world = make_world(
        settings=chosen | (settings or {}),
        client=registered | (client or {}),
        transport=network,
        **options,
    )
    network.inner = httpx.ASGITransport(world.op.app)
    rp = RelyingParty(world, network.paths)
    rp.edit("metadata", with_members(**TRAPS))
    return rp


def with_method(method: str, *, assertions: str = "RS256", signs: str = "RS256") -> RelyingParty:
    """A client that authenticates so; `assertions` says how it signs its own."""
    settings: dict[str, Any] = {"client_auth_method": method}
    client: dict[str, Any] = {"token_endpoint_auth_method": method}
    if method == "none":
        settings["client_secret"] = client["client_secret"] = None
    if method == "private_key_jwt":
        key = rsa_key("client")
        client["public_key"] = public_pem(key)
        settings["client_private_key"] = private_pem(key)
        settings["client_assertion_algorithm"] = assertions
    return relying_party(settings=settings, client=client, signs=signs)
