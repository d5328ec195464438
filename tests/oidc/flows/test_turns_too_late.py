"""A refresh whose session has ended when its turn comes."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import Code, MemorySessionStore
from fastapi_oidc.flows.refresh_outcomes import Refused
from fastapi_oidc.session.keeper import Kept
from tests.oidc.flows.test_refresher import Site, signed_in

GONE = Refused(Code.SESSION_SIGNED_OUT, "it is no longer kept")


async def unwanted(current: Kept[Any]) -> Kept[Any]:
    raise LookupError("it was made, with a refresh token that is to be presented no more")


@pytest.mark.parametrize("options", [{}, {"session_store": "memory"}], ids=["cookie", "store"])
async def test_what_ended_in_this_process_is_not_made_anew(options: dict[str, Any]) -> None:
    site: Site = await signed_in(**options)
    session = site.kept.session
    site.world.oidc.site.party.register.end(session.id, "signed_out", ends=session.expires_at)
    assert await site.begun(unwanted) == GONE


async def test_a_row_that_is_gone_is_not_made_anew() -> None:
    store: MemorySessionStore[Any] = MemorySessionStore()
    site = await signed_in(session_store=store)
    assert site.kept.reference is not None
    await store.delete(site.kept.reference.store_id)
    assert await site.begun(unwanted) == GONE
