"""Registrations that a function finds: each tenant has a broker, whose accesses are its own."""

from pathlib import Path

import pytest

from fastapi_oidc.broker import Broker, Refused, Route
from fastapi_oidc.testing import sign_in
from tests.oidc.broker.apis import Api, serving
from tests.oidc.broker.guests import NAME, Guest
from tests.oidc.broker.rig import TWO_HOURS
from tests.oidc.web.test_found_registrations import USERS, tenants_of


async def test_an_access_of_one_tenant_is_worth_nothing_at_another(tmp_path: Path) -> None:
    world, guests = tenants_of(session_store="memory", back_channel_logout_store=None), []
    tenants = {name: world.instance.registration(world.settings[name]) for name in USERS}
    async with serving(Api()) as api, world.browser() as browser:
        route = Route(url=api.url, own_token=True, allow=["GET /events"])
        acme, globex = (Broker(tenants[name], {NAME: route}) for name in ("acme", "globex"))
        for name, user in USERS.items():
            await sign_in(browser, f"{world.url(name)}/page", user=user)
        [session] = await tenants["acme"].sessions_of("alice")
        access = await acme.give(session, to="m1", routes=[NAME], until=TWO_HOURS)
        for broker in (acme, globex):
            async with broker.serve(access, path := str(tmp_path / "socket")):
                guests.append(await Guest(path).get())
        assert [answer.status_code for answer in guests] == [200, 401]
        [call] = api.received
        assert call.token == session.tokens.access_token
        with pytest.raises(Refused, match=r"broker\.signed_out"):
            await globex.give(session, to="m2", routes=[NAME], until=TWO_HOURS)
