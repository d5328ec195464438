"""What a session becomes by the answer to a refresh, as far as a cookie can hold it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import Clock, Code, IdentityContext, OIDCSession, PersistContext, SessionError
from fastapi_oidc.flows.refresh import fitting, successor
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence, renewed
from fastapi_oidc.flows.shared import KeptAnswer
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.testing import ServerError
from tests.oidc.world import make_world

ANSWER = TokenResponse(
    access_token="access-2",
    id_token=None,
    refresh_token="refresh-2",
    expires_in=300,
    scope=("openid",),
    session_state="state-2",
)
TOO_MUCH = [secrets.token_hex(20) for _ in range(200)]


class Site:
    """A world in which somebody has signed in, and what its application was asked to resolve."""

    def __init__(self, **options: Any) -> None:
        self.contexts: list[IdentityContext] = []
        self.identity: Any = ["as it was"]
        chosen: dict[str, Any] = {
            "resolve_identity": self._resolve,
            "identity_type": list[str],
        } | options
        self.world = make_world(**chosen)

    def _resolve(self, context: IdentityContext) -> Any:
        self.contexts.append(context)
        return self.identity

    @property
    def party(self) -> RelyingParty[Any]:
        return self.world.oidc.site.party

    @property
    def now(self) -> int:
        return int(self.world.time.now)

    async def kept(self) -> Kept[Any]:
        browser = await self.world.signed_in()
        found = await self.party.keeper.read(dict(browser.cookies))
        assert found is not None
        return found.kept

    async def answered(self, kept: Kept[Any]) -> KeptAnswer:
        """What the provider answers, its ID token verified."""
        answer = await self.party.provider.refresh(kept.session.tokens.refresh_token or "")
        verified = await self.party.provider.verify(answer.id_token or "")
        return KeptAnswer(answer, self.now, verified)

    async def fitted(self, kept: Kept[Any], **changes: Any) -> Kept[Any]:
        evidence = Evidence(ANSWER, None, None, "state-2", self.now)
        session = renewed(self.party, kept.session, evidence).model_copy(update=changes)
        return await fitting(self.party, kept, session, evidence)


async def test_an_answer_without_an_id_token_brings_tokens_and_session_state() -> None:
    site = Site()
    kept = await site.kept()
    site.world.time.advance(100)
    after = await successor(site.party, kept, KeptAnswer(ANSWER, site.now - 7))
    tokens = kept.session.tokens.model_copy(
        update={
            "access_token": "access-2",
            "refresh_token": "refresh-2",
            "expires_at": site.now + 293,
            "scope": ("openid",),
        }
    )
    changed = {
        "tokens": tokens,
        "session_state": "state-2",
        "generation": 1,
        "refreshed_at": site.now,
    }
    assert after == Kept(kept.session.model_copy(update=changed), kept.reference)


async def test_the_identity_is_made_of_the_new_id_token_user_info_and_access_token() -> None:
    site = Site()
    kept = await site.kept()
    site.world.op.edits.put("id_token", lambda said: said | {"role": "new"})
    site.world.op.edits.put("userinfo", lambda said: said | {"team": "new"})
    answer = await site.answered(kept)
    site.identity = ["new"]
    after = await successor(site.party, kept, answer)
    assert (after.session.identity, after.session.claims["role"]) == (["new"], "new")
    context = site.contexts[-1]
    assert context.id_token_claims == after.session.claims
    assert context.user_info is not None
    assert context.user_info["team"] == "new"
    assert context.access_token == answer.response.access_token


@pytest.mark.parametrize("is_asked", [True, False], ids=["that fails", "that is not asked for"])
async def test_without_user_info_the_identity_is_made_of_the_rest(is_asked: bool) -> None:
    site = Site(settings={"fetch_userinfo": is_asked})
    kept = await site.kept()
    if is_asked:
        site.world.op.faults.put("userinfo", ServerError(), times=9)
    calls = site.world.op.record.calls["userinfo"]
    await successor(site.party, kept, await site.answered(kept))
    assert site.contexts[-1].user_info is None
    assert (site.world.op.record.calls["userinfo"] > calls) is is_asked
    codes = [event.code for event in site.world.events if event.name == "session.identity_kept"]
    assert codes == ([Code.PROVIDER_STATUS] if is_asked else [])


@pytest.mark.parametrize("changed", ["identity", "claims", "id_token"])
async def test_what_outgrows_its_cookie_has_the_new_tokens_and_the_rest_as_it_was(
    changed: str,
) -> None:
    site = Site()
    kept = await site.kept()
    before = kept.session
    new: dict[str, Any] = {}
    if changed == "identity":
        site.identity = TOO_MUCH
    elif changed == "claims":
        new["claims"] = before.claims | {"groups": TOO_MUCH}
    else:
        new["tokens"] = before.tokens.model_copy(
            update={"id_token": "".join(TOO_MUCH), "access_token": "access-2"}
        )
    after = (await site.fitted(kept, **new)).session
    assert (after.identity, after.claims) == (before.identity, before.claims)
    assert after.tokens.id_token == before.tokens.id_token
    assert after.tokens.access_token == "access-2"
    assert after.generation == 1
    [event] = [event for event in site.world.events if event.name == "session.identity_kept"]
    assert (event.code, event.at) == (Code.SESSION_COOKIE_TOO_LARGE, site.now)


@pytest.mark.parametrize("identity", [["new"], [1]], ids=["fits", "is of another type"])
async def test_a_session_in_a_store_keeps_its_place(identity: Any) -> None:
    site = Site(session_store="memory")
    kept = await site.kept()
    site.identity = identity
    after = await site.fitted(kept)
    assert after.reference == kept.reference is not None
    assert after.session.identity == (["new"] if identity == ["new"] else ["as it was"])


async def test_what_fits_in_no_way_is_refused() -> None:
    site = Site()
    kept = await site.kept()
    tokens = kept.session.tokens.model_copy(update={"refresh_token": "".join(TOO_MUCH)})
    with pytest.raises(SessionError) as caught:
        await site.fitted(kept, tokens=tokens)
    assert caught.value.code is Code.SESSION_COOKIE_TOO_LARGE


async def test_the_application_has_a_last_look_at_each_attempt() -> None:
    looks: list[tuple[str, int, Any]] = []

    def look(context: PersistContext[Any]) -> OIDCSession[Any]:
        session = context.session
        looks.append((context.reason, session.generation, session.identity))
        state = f"seen {len(looks)} times"
        return session.model_copy(update={"session_state": state})

    site = Site(before_session_persist=look)
    kept = await site.kept()
    site.identity = TOO_MUCH
    after = await site.fitted(kept)
    as_it_was = ["as it was"]
    assert looks == [("login", 0, as_it_was), ("refresh", 1, TOO_MUCH), ("refresh", 1, as_it_was)]
    assert after.session.session_state == "seen 3 times"


async def test_an_answer_that_came_after_now_by_this_clock_counts_as_of_now() -> None:
    """The clock was set back meanwhile: an ID token that is still good is accepted."""
    site = Site()
    kept = await site.kept()
    answer = await site.answered(kept)
    later = replace(answer, received_at=site.now + 100_000)
    after = await successor(site.party, kept, later)
    assert after.session.generation == 1


async def test_the_drift_of_the_settings_is_tolerated_when_an_answer_came() -> None:
    site = Site()
    kept = await site.kept()
    answer = await site.answered(kept)
    assert answer.verified is not None
    site.world.time.now = float(str(answer.verified.claims["exp"])) + 100
    patient = replace(site.party, clock=Clock(drift=101, read=site.world.time))
    after = await successor(patient, kept, replace(answer, received_at=site.now))
    assert after.session.generation == 1
