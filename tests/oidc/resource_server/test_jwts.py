"""JWTs at the API: signatures, keys that rotate, refusals, and keys and certificates of callers."""

import hashlib
import json
import re
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from pydantic import JsonValue

from fastapi_oidc import Clock, Code, ConfigurationError, MemoryStore
from fastapi_oidc.clock import DEFAULT_DRIFT
from fastapi_oidc.errors import ProtocolViolation
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS, DPoPKey
from fastapi_oidc.protocol.encoding import decode_base64url, encode_base64url
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.resource_server.server import require_certificate
from fastapi_oidc.settings import revealed
from fastapi_oidc.testing import ServerError
from fastapi_oidc.testing.keys import generate_key
from tests.oidc.flows.fallible_stores import FallibleStore, Outage
from tests.oidc.protocol.examples import refused
from tests.oidc.resource_server.api_world import (
    AUDIENCE,
    MACHINES,
    METADATA_URL,
    APIWorld,
    make_api_world,
)
from tests.oidc.world import Time


def jwt_claims(token: str) -> dict[str, JsonValue]:
    claims: dict[str, JsonValue] = json.loads(decode_base64url(token.split(".")[1]))
    return claims


async def code_of(world: APIWorld, token: str) -> str:
    """The code of a 401 response whose challenge is that of RFC 6750 3.1."""
    answer = await world.get(token)
    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer realm="oidc", error="invalid_token"')
    assert token not in answer.text + challenge
    return str(answer.json()["code"])


async def test_the_challenge_names_the_scope_and_the_metadata() -> None:
    world = make_api_world()
    answer = await world.get(await world.with_claims(exp=1_799_999_000))
    assert answer.headers["www-authenticate"] == (
        'Bearer realm="oidc", error="invalid_token", '
        'error_description="The access token has expired.", scope="machines:read", '
        f'resource_metadata="{METADATA_URL}"'
    )
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("options", [{"algorithms": ["RS256"]}, {"introspect": "opaque"}])
async def test_a_token_that_the_client_secret_signs_is_refused_whatever_logins_use(
    options: Any,
) -> None:
    world = make_api_world(settings={"id_token_signing_algorithms": ["HS256"]}, **options)
    secret = revealed(world.world.oidc.settings.client_secret) or ""
    claims = {"iss": world.world.op.issuer, "aud": AUDIENCE, "exp": world.now + 60}
    signed = Signer.of_secret(secret, "HS256").sign(claims, typ="at+jwt")
    assert await code_of(world, signed) == Code.JWS_ALGORITHM


async def test_a_foreign_token_is_refused_also_while_the_keys_cannot_be_read_again() -> None:
    world = make_api_world()
    stranger = Signer.of_private_key(generate_key("RS256"), key_id="stranger")
    claims = jwt_claims(await world.token())
    await world.get(stranger.sign(claims, typ="at+jwt"))  # makes the keys be read again
    foreign = stranger.sign({**claims, "iss": "https://staging.test"}, typ="at+jwt")
    assert await code_of(world, foreign) == Code.ACCESS_TOKEN_ISSUER
    assert await code_of(world, stranger.sign(claims, typ="at+jwt")) == Code.JWS_KEY_MISSING


async def test_a_stranger_s_token_is_401_while_the_provider_is_down() -> None:
    world = make_api_world()
    stranger = Signer.of_private_key(generate_key("RS256"), key_id="stranger")
    token = await world.token()
    assert (await world.get(token)).status_code == 200
    world.world.op.faults.put("jwks", ServerError(), times=9)
    world.world.time.advance(60)
    assert await code_of(world, token[:-8] + "AAAAAAAA") == Code.JWS_SIGNATURE
    unknown = stranger.sign(jwt_claims(token), typ="at+jwt")
    assert await code_of(world, unknown) == Code.JWS_KEY_MISSING
    assert (await world.get(token)).status_code == 200


@pytest.mark.parametrize("endpoint", ["metadata", "jwks"])
async def test_while_the_provider_is_down_nobody_gets_in(endpoint: str) -> None:
    world = make_api_world()
    token = await world.token()
    world.world.op.faults.put(endpoint, ServerError(), times=9)  # type: ignore[arg-type]
    answer = await world.get(token)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 5
    world.world.op.faults.clear()
    world.world.time.advance(6)
    assert (await world.get(token)).status_code == 200


@pytest.mark.parametrize(
    ("options", "explanation"),
    [
        ({"audience": "app", "accept_plain_jwt": True}, "another audience than the client_id"),
        ({"algorithms": ["HS256"]}, "algorithms of an API"),
        ({"algorithms": ["none"]}, "algorithms of an API"),
        ({"algorithms": []}, "algorithms of an API"),
        *[({"introspection_lifetime": each}, "introspection_lifetime") for each in (-1, 60_000)],
        ({"audience": "http://app.test"}, "https"),
        ({"resource": "https://app.test/#top"}, "resource must be an https URL"),
        ({"resource": "app.test"}, "resource must be an https URL"),
        ({"audience": ""}, "audience"),
    ],
)
def test_an_unsafe_api_is_not_made(options: dict[str, JsonValue], explanation: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(explanation)):
        make_api_world(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", ["machines write", 'a"b', "", "é"])
def test_a_scope_is_one_word(scope: str) -> None:
    api = make_api_world().api
    for given, named in (((scope,), {}), ((), {"add": scope})):
        with pytest.raises(ConfigurationError, match="is not a scope"):
            api.protected(FastAPI(), *given, tools=named)
    with pytest.raises(ConfigurationError, match="is not a scope"):
        api.require(scope)


CERTIFICATE = b"0\x82 the DER of a certificate \xff\xfe"
THUMBPRINT = encode_base64url(hashlib.sha256(CERTIFICATE).digest())
BASE64 = b64encode(CERTIFICATE).decode()
PEM = f"-----BEGIN CERTIFICATE-----\n{BASE64}\n-----END CERTIFICATE-----\n"


class Bound:
    """A token that is bound to a key, and proofs of it."""

    def __init__(self, world: APIWorld, token: str, key: DPoPKey) -> None:
        self.world, self.token, self.key = world, token, key

    def proof(
        self, url: str = MACHINES, *, method: str = "GET", at: int = 0, token: str | None = ""
    ) -> str:
        sent = self.token if token == "" else token
        return self.key.proof(method, url, self.world.now + at, access_token=sent)

    async def get(self, proof: str, *, scheme: str = "DPoP", path: str = "/machines") -> Any:
        return await self.world.get(self.token, path, scheme=scheme, DPoP=proof)


async def bound(world: APIWorld | None = None) -> Bound:
    world, key = world or make_api_world(), DPoPKey.new()
    return Bound(world, await world.token(key=key), key)


def challenged(answer: httpx.Response, code: Code, error: str = "invalid_dpop_proof") -> None:
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith(f'DPoP realm="oidc", error="{error}", error_description=')
    assert f'algs="{" ".join(PROOF_ALGORITHMS)}"' in challenge
    assert f'resource_metadata="{METADATA_URL}"' in challenge


async def test_a_bound_token_is_no_bearer_token_and_a_bearer_token_no_bound_one() -> None:
    mine = await bound()
    answer = await mine.get(mine.proof(), scheme="Bearer")
    challenged(answer, Code.ACCESS_TOKEN_BINDING, "invalid_token")
    mine.token = await mine.world.token()
    challenged(await mine.get(mine.proof()), Code.ACCESS_TOKEN_BINDING, "invalid_token")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"url": "https://app.test/other"}, Code.DPOP_TARGET),
        ({"method": "POST"}, Code.DPOP_TARGET),
        ({"at": 61}, Code.DPOP_ISSUED_AT),
        ({"token": "another"}, Code.DPOP_ACCESS_TOKEN),
        ({}, Code.DPOP_KEY),
    ],
)
async def test_a_proof_of_something_else_is_refused(change: dict[str, Any], code: Code) -> None:
    mine = await bound()
    if code is Code.DPOP_KEY:
        mine.key = DPoPKey.new()
    challenged(await mine.get(mine.proof(**change)), code)


async def test_there_is_one_proof() -> None:
    mine = await bound()
    answer = await mine.world.get(mine.token, scheme="DPoP")
    challenged(answer, Code.DPOP_MALFORMED)
    async with mine.world.world.browser() as program:
        proofs = [("DPoP", mine.proof()), ("DPoP", mine.proof())]
        headers = [("Authorization", f"DPoP {mine.token}"), *proofs]
        challenged(await program.get("/machines", headers=headers), Code.DPOP_MALFORMED)


async def test_a_proof_is_good_for_one_request() -> None:
    mine = await bound()
    proof = mine.proof(at=60)
    assert (await mine.get(proof)).status_code == 200
    for seconds in (0, 60, 60):
        mine.world.world.time.advance(seconds)
        challenged(await mine.get(proof), Code.DPOP_REPLAYED)
    mine.world.world.time.advance(1)
    challenged(await mine.get(proof), Code.DPOP_ISSUED_AT)


async def test_a_process_that_cannot_remember_accepts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = await bound()
    monkeypatch.setattr(mine.world.world.oidc.registrations.engine.proofs, "_max_values", 2)
    proofs = [mine.proof() for _ in range(3)]
    assert [(await mine.get(proof)).status_code for proof in proofs] == [200, 200, 503]
    challenged(await mine.get(proofs[0]), Code.DPOP_REPLAYED)


async def test_a_proof_is_good_for_one_request_though_the_clock_of_the_store_is_fast() -> None:
    """The store deletes by its own clock what this process may still accept."""
    time = Time()
    store = MemoryStore(clock=Clock(read=lambda: time() + DEFAULT_DRIFT))
    mine = await bound(make_api_world(world={"time": time, "back_channel_logout_store": store}))
    proof = mine.proof(at=60)
    assert (await mine.get(proof)).status_code == 200
    time.advance(120)
    challenged(await mine.get(proof), Code.DPOP_REPLAYED)


async def test_while_nobody_can_tell_whether_a_proof_was_used_nobody_gets_in() -> None:
    mine = await bound(
        make_api_world(world={"back_channel_logout_store": FallibleStore(Outage(is_down=True))})
    )
    answer = await mine.get(mine.proof())
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 5


async def test_one_proof_serves_every_dependency_of_a_request() -> None:
    mine = await bound()
    assert (await mine.get(mine.proof("https://app.test/either"), path="/either")).json() == {
        "sub": "program",
        "by": "token",
        "token": "program",
    }


@pytest.mark.parametrize("header", [f":{BASE64}:", quote(PEM), quote(PEM, safe="+=/"), BASE64])
async def test_the_certificate_that_the_front_server_saw_lets_its_token_in(header: str) -> None:
    world = make_api_world(client_certificate_header="Client-Cert")
    token = await world.with_claims(cnf={"x5t#S256": THUMBPRINT})
    assert (await world.get(token, **{"Client-Cert": header})).status_code == 200


@pytest.mark.parametrize(
    "header", [None, "", ":AAAA:", "not base64!", f":{BASE64[:-4]}:", "%FF", "é"]
)
def test_any_other_header_does_not(header: str | None) -> None:
    with refused(Code.ACCESS_TOKEN_CERTIFICATE, ProtocolViolation):
        require_certificate(header, THUMBPRINT)


@pytest.mark.parametrize(("setting", "times"), [(None, 1), ("Client-Cert", 2)])
async def test_without_the_setting_or_with_two_headers_such_a_token_is_refused(
    setting: str | None, times: int
) -> None:
    world = make_api_world(client_certificate_header=setting)
    token = await world.with_claims(cnf={"x5t#S256": THUMBPRINT})
    async with world.world.browser() as program:
        sent = [("Authorization", f"Bearer {token}"), *[("Client-Cert", f":{BASE64}:")] * times]
        answer = await program.get("/machines", headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (401, Code.ACCESS_TOKEN_CERTIFICATE)


async def test_a_token_may_be_bound_to_both() -> None:
    world = make_api_world(client_certificate_header="Client-Cert")
    mine = await bound(world)
    both: dict[str, JsonValue] = {"jkt": mine.key.thumbprint, "x5t#S256": THUMBPRINT}
    mine.token = await world.with_claims(cnf=both)
    challenged(await mine.get(mine.proof()), Code.ACCESS_TOKEN_CERTIFICATE, "invalid_token")
    headers = {"Client-Cert": f":{BASE64}:", "DPoP": mine.proof()}
    assert (await world.get(mine.token, scheme="DPoP", **headers)).status_code == 200
