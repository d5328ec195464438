"""Requests with tokens that are bound to the key of their session (RFC 9449 7)."""

import asyncio
from typing import Any

import httpx
import httpx2
import pytest

from fastapi_oidc import DownstreamAPI, Grant
from fastapi_oidc.protocol.dpop import Proof, accept_proof
from fastapi_oidc.testing import DevResource
from tests.oidc.grants.api import API_URL, session_id
from tests.oidc.world import World, make_world

CALENDAR = "https://calendar.test"
NONCE = 'DPoP error="use_dpop_nonce"'


class BoundApi:
    """An API that checks proofs, with a nonce if it has one. `redirects` are paths to locations."""

    def __init__(self, world: World, *, nonce: str = "", library: Any = httpx) -> None:
        self.world, self.nonce, self.library = world, nonce, library
        self.proofs: list[Proof] = []
        self.redirects: dict[str, str] = {}
        self.served: list[tuple[str, str, bytes]] = []
        self.asked = 0

    async def status(
        self, auth: Any, method: str = "GET", path: str = "/events?day=1", **options: Any
    ) -> int:
        transport = self.library.MockTransport(self)
        client = self.library.AsyncClient(auth=auth, transport=transport, follow_redirects=True)
        async with client:
            response = await client.request(method, f"{API_URL}{path}", **options)
            status: int = response.status_code
            return status

    def __call__(self, request: Any) -> Any:
        self.asked += 1
        scheme, _, token = request.headers["Authorization"].partition(" ")
        assert scheme == "DPoP"
        answer = {"DPoP-Nonce": self.nonce} if self.nonce else {}
        try:
            accepted = accept_proof(
                request.headers["DPoP"],
                method=request.method,
                url=str(request.url).partition("?")[0],
                now=int(self.world.time.now),
                access_token=token,
                thumbprint=self.thumbprint(token),
                nonce=self.nonce or None,
            )
        except Exception:
            return self.library.Response(401, headers={"WWW-Authenticate": NONCE, **answer})
        self.proofs.append(accepted)
        self.served.append((request.method, request.url.path, request.content))
        if (location := self.redirects.get(request.url.path)) is not None:
            return self.library.Response(307, headers={"Location": location})
        return self.library.Response(200, headers=answer)

    def thumbprint(self, token: str) -> str | None:
        found = self.world.op._state.credentials.access_token(token)
        assert found is not None
        return found.access.thumbprint


@pytest.fixture
def world() -> World:
    return make_world(
        session_store="memory",
        settings={"dpop": True},
        provider={"resources": [DevResource(CALENDAR)]},
        downstream_apis=[DownstreamAPI(grant="token_exchange", resource=CALENDAR, scope=())],
    )


async def grant_in(world: World, **target: str) -> Grant:
    await world.signed_in()
    return await world.oidc.grant(session_id(world), **target)


@pytest.mark.parametrize("target", [{}, {"resource": CALENDAR}])
async def test_each_request_has_a_proof_of_its_own(world: World, target: dict[str, str]) -> None:
    grant, api = await grant_in(world, **target), BoundApi(world)
    assert (await grant.access_token()).token_type == "DPoP"
    assert await api.status(world.oidc.auth(grant)) == 200
    assert await api.status(world.oidc.auth(grant), "POST", content=b"lunch") == 200
    assert len({proof.jti for proof in api.proofs}) == 2
    assert len({proof.thumbprint for proof in api.proofs}) == 1


async def test_the_nonce_of_an_api_is_asked_for_once(world: World) -> None:
    """RFC 9449 9: another request, and the nonce from then on."""
    grant, api = await grant_in(world), BoundApi(world, nonce="n-1")
    assert await api.status(world.oidc.auth(grant)) == 200
    assert api.asked == 2
    assert await api.status(world.oidc.auth(grant)) == 200
    assert api.asked == 3
    api.nonce = "n-2"
    assert await api.status(world.oidc.auth(grant), "POST", content=b"lunch") == 200
    assert api.asked == 5


async def test_requests_at_once_learn_the_nonce_each(world: World) -> None:
    grant, api = await grant_in(world), BoundApi(world, nonce="n-1")
    auth = world.oidc.auth(grant)
    assert await asyncio.gather(*(api.status(auth) for _ in range(5))) == [200] * 5
    assert api.asked <= 10


async def test_a_nonce_that_is_refused_again_and_again_is_no_loop(world: World) -> None:
    grant, api = await grant_in(world), BoundApi(world)
    nonces = iter(f"n-{number}" for number in range(99))

    def refusing(request: httpx.Request) -> httpx.Response:
        api.asked += 1
        return httpx.Response(401, headers={"WWW-Authenticate": NONCE, "DPoP-Nonce": next(nonces)})

    transport = httpx.MockTransport(refusing)
    async with httpx.AsyncClient(auth=world.oidc.auth(grant), transport=transport) as client:
        assert (await client.get(API_URL)).status_code == 401
    assert api.asked == 2


LIBRARIES = [httpx, httpx2]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
@pytest.mark.parametrize("options", [{}, {"content": b"lunch"}])
async def test_each_request_of_a_chain_of_redirects_has_a_proof(
    world: World, library: Any, options: dict[str, Any]
) -> None:
    """RFC 9449 4.3: `htu` is the URL of this request."""
    grant, api = await grant_in(world), BoundApi(world, library=library)
    api.redirects = {"/a": "/b", "/b": "/c"}
    assert await api.status(world.oidc.auth(grant), "POST", "/a", **options) == 200
    body = options.get("content", b"")
    assert api.served == [("POST", path, body) for path in ("/a", "/b", "/c")]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
async def test_no_proof_leaves_the_origin(world: World, library: Any) -> None:
    grant, sent = await grant_in(world), []

    def away(request: Any) -> Any:
        sent.append((request.url.host, {name.lower() for name, _ in request.headers.raw}))
        if request.url.host == "other.test":
            return library.Response(401, headers={"WWW-Authenticate": NONCE, "DPoP-Nonce": "n"})
        return library.Response(307, headers={"Location": "https://other.test/"})

    transport = library.MockTransport(away)
    async with library.AsyncClient(
        auth=world.oidc.auth(grant), transport=transport, follow_redirects=True
    ) as client:
        assert (await client.get(API_URL)).status_code == 401
    [(_, ours), (host, theirs)] = sent
    assert {b"authorization", b"dpop"} <= ours
    assert host == "other.test"
    assert not {b"authorization", b"dpop"} & theirs
