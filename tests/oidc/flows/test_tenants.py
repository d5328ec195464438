"""Signing in at a Microsoft Entra endpoint that many tenants share."""

import httpx
import pytest

from fastapi_oidc import ConfigurationError
from fastapi_oidc.testing import DevUser, sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, copy_of, user
from tests.oidc.flows.test_continued_sessions import SAME_USER, check, outcome
from tests.oidc.interleaving import another_process
from tests.oidc.world import LOGIN_URL, World, make_world

SHARED_ISSUER = "https://op.test/common/v2.0"
OURS = "11111111-aaaa-4444-8888-000000000000"
THEIRS = "22222222-bbbb-4444-8888-000000000000"


def of_tenants(*allowed: str) -> World:
    users = [DevUser("alice", tenant=OURS), DevUser("bob", tenant=THEIRS)]
    return make_world(
        provider={"issuer": SHARED_ISSUER, "users": users}, settings={"allowed_tenants": allowed}
    )


@pytest.mark.parametrize("allowed", [OURS, "*"])
async def test_user_of_an_allowed_tenant_signs_in_and_is_refreshed(allowed: str) -> None:
    """At an endpoint of Microsoft Entra that many tenants share."""
    world = of_tenants(allowed)
    browser = await world.signed_in("alice")
    world.time.advance(AFTER_EXPIRY)
    assert await user(browser) == "alice"
    assert "session.refreshed" in world.event_names()


async def test_user_of_another_tenant_is_refused() -> None:
    world = of_tenants(OURS)
    answer: httpx.Response = await sign_in(world.browser(), LOGIN_URL, user="bob")
    assert answer.json()["code"] == "id_token.issuer"
    [event] = [event for event in world.events if event.name == "login.refused"]
    assert THEIRS in event.explanation


async def test_where_every_tenant_is_allowed_a_sub_alone_names_nobody() -> None:
    with pytest.raises(ConfigurationError, match="pass both"):
        await of_tenants("*").oidc.revoke(sub="alice")


class TestUsersWithTheSameSub:
    """Of two tenants: a user is `iss` and `sub` of the ID token together (Core 5.7)."""

    async def worlds(self) -> tuple[World, httpx.AsyncClient, httpx.AsyncClient]:
        """Browsers of alice of one tenant, and of another whom the provider calls alice too."""
        issuers = [SHARED_ISSUER.replace("common", tenant) for tenant in (OURS, THEIRS)]
        users = [DevUser("alice", tenant=OURS)]
        world = make_world(
            provider={"issuer": SHARED_ISSUER, "users": users},
            settings={"allowed_tenants": [OURS, THEIRS]},
            session_store="memory",
        )
        ours = await world.signed_in()
        self.other = {"iss": issuers[1], "tid": THEIRS}
        world.op.edits.put("id_token", lambda said: said | self.other)
        theirs = await world.signed_in()
        world.op.edits.clear()
        return world, ours, theirs

    async def test_a_silent_login_of_one_does_not_confirm_the_other(self) -> None:
        _, ours, theirs = await self.worlds()
        assert outcome(await check(ours)) == SAME_USER
        assert outcome(await check(theirs))[0] == "other_user"
        assert [await user(each) for each in (ours, theirs)] == ["alice", "alice"]

    async def test_each_has_sessions_of_its_own(self) -> None:
        world, ours, theirs = await self.worlds()
        issuer = self.other["iss"]
        assert len(await world.oidc.sessions_of("alice")) == 2
        [session] = await world.oidc.sessions_of("alice", issuer=issuer)
        assert session.issuer == issuer
        await world.oidc.revoke(sub="alice", issuer=issuer)
        assert [await user(each) for each in (ours, theirs)] == ["alice", None]

    async def test_a_logout_token_of_one_does_not_end_the_other(self) -> None:
        world, ours, theirs = await self.worlds()
        world.op.edits.put(
            "logout_token", lambda said: {k: v for k, v in said.items() if k != "sid"} | self.other
        )
        world.time.advance(5)
        await world.op.log_out("alice")
        assert [await user(each) for each in (ours, theirs)] == ["alice", None]

    async def test_a_tenant_that_is_no_longer_allowed_is_signed_out(self) -> None:
        world, ours, theirs = await self.worlds()
        settings = world.oidc.settings.model_copy(update={"allowed_tenants": (OURS,)})
        store = world.oidc.runtime.party.sessions.cells.store
        later = another_process(world, settings=settings, session_store=store)
        copies = [copy_of(each, later) for each in (ours, theirs)]
        assert [await user(each) for each in copies] == ["alice", None]
