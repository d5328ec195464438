"""JWTs at the API: signatures, keys that rotate, and what the response says of a refused token."""

import json
import re

import pytest
from fastapi import FastAPI
from pydantic import JsonValue

from fastapi_oidc import Code, ConfigurationError
from fastapi_oidc.protocol.encoding import decode_base64url
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.settings import revealed
from fastapi_oidc.testing import ServerError, sign_in
from fastapi_oidc.testing.keys import generate_key
from tests.oidc.resource_server.api_world import AUDIENCE, METADATA_URL, APIWorld, make_api_world


def jwt_claims(token: str) -> dict[str, JsonValue]:
    claims: dict[str, JsonValue] = json.loads(decode_base64url(token.split(".")[1]))
    return claims


async def code_of(world: APIWorld, token: str) -> str:
    """The code of a 401 response whose challenge is that of RFC 6750 3.1."""
    answer = await world.get(token)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith(
        'Bearer realm="oidc", error="invalid_token"'
    )
    assert token not in answer.text + answer.headers["www-authenticate"]
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


async def test_a_token_that_the_client_secret_signs_is_refused_whatever_logins_use() -> None:
    world = make_api_world(
        settings={"id_token_signing_algorithms": ["HS256"]}, algorithms=["RS256"]
    )
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
    assert (
        answer.json()["detail"] == "Access tokens cannot be checked right now. Try again shortly."
    )
    world.world.op.faults.clear()
    world.world.time.advance(6)
    assert (await world.get(token)).status_code == 200


async def test_an_id_token_is_refused_where_plain_jwts_are_accepted() -> None:
    world = make_api_world(token_format="plain_jwt", accept_plain_jwt=True)
    assert (await world.get(await world.token())).status_code == 200
    for removed in ("", "nonce", "at_hash"):

        def stolen(claims: dict[str, JsonValue], removed: str = removed) -> dict[str, JsonValue]:
            kept = {name: claim for name, claim in claims.items() if name != removed}
            return kept | {"aud": ["app", AUDIENCE], "azp": "app"}

        world.world.op.edits.put("id_token", stolen)
        assert await code_of(world, await id_token(world)) == Code.ACCESS_TOKEN_KIND


async def id_token(world: APIWorld) -> str:
    """The ID token of a login, as somebody steals it from the application."""
    stolen: list[str] = []

    def steal(members: dict[str, JsonValue]) -> dict[str, JsonValue]:
        stolen.append(str(members["id_token"]))
        return members

    world.world.op.edits.put("token_response", steal)
    async with world.world.browser() as browser:
        await sign_in(browser, "/auth/login", user="alice")
    return stolen[-1]


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


def test_a_scope_is_one_word() -> None:
    api = make_api_world().api
    for scope in ("machines write", 'a"b', "", "é"):
        with pytest.raises(ConfigurationError, match="is not a scope"):
            api.require(scope)
        with pytest.raises(ConfigurationError, match="is not a scope"):
            api.protected(FastAPI(), scope)
        with pytest.raises(ConfigurationError, match="is not a scope"):
            api.protected(FastAPI(), tools={"add": scope})
