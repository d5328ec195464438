"""The ID token of a refresh is held against that of the login (OpenID Connect Core 12.2)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from fastapi_oidc import Code
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.world import World, make_world

TENANT, ANOTHER = str(uuid4()), str(uuid4())
AT_LOGIN = {"aud": ["app", "api"], "azp": "app", "auth_time": 1_799_999_000, "tid": TENANT}


async def after_a_refresh(members: dict[str, Any]) -> tuple[World, int | None]:
    """What became of a session whose login said `AT_LOGIN`, and its refresh `members` too."""
    world = make_world(settings={"trusted_id_token_audiences": ["api"]})
    nonces: list[Any] = []

    def said(claims: dict[str, Any]) -> dict[str, Any]:
        nonces.append(claims.get("nonce"))
        of_the_login = {"nonce": nonces[0]}
        return claims | AT_LOGIN | of_the_login | (members if len(nonces) > 1 else {})

    world.op.edits.put("id_token", said)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    return world, await generation(browser)


@pytest.mark.parametrize("members", [{}, {"tid": ANOTHER}], ids=["wholly", "of no tenants"])
async def test_one_that_says_the_same_is_accepted(members: dict[str, Any]) -> None:
    """To a provider without tenants `tid` is a claim like any other."""
    _, refreshed = await after_a_refresh(members)
    assert refreshed == 1


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"aud": ["app"]}, Code.ID_TOKEN_AUDIENCE),
        ({"aud": ["app", "api", "another"]}, Code.ID_TOKEN_AUDIENCE),
        ({"auth_time": 1_799_999_001}, Code.ID_TOKEN_AUTH_TIME),
        ({"nonce": "another"}, Code.ID_TOKEN_NONCE),
        ({"at_hash": "77QmUPtjPfzWtF2AnpK9RQ"}, Code.ID_TOKEN_ACCESS_TOKEN_HASH),
        ({"exp": 1_799_999_999}, Code.ID_TOKEN_EXPIRED),
    ],
)
async def test_one_that_says_something_else_ends_the_session(
    members: dict[str, Any], code: Code
) -> None:
    world, refreshed = await after_a_refresh(members)
    assert refreshed is None
    assert world.events[-1].code is code
