from fastapi_oidc.testing import SignedIn, TokensIssued, UserInfoServed
from tests.oidc.testing.bare_client import BareClient


async def test_it_keeps_events_in_order_and_counts_calls(rp: BareClient) -> None:
    await rp.userinfo((await rp.tokens())["access_token"])
    kinds = [type(event).__name__ for event in rp.provider.record.events]
    assert kinds == ["AuthorizationRequested", "SignedIn", "TokensIssued", "UserInfoServed"]
    assert rp.provider.record.of(UserInfoServed) == [UserInfoServed("app", "alice")]
    assert rp.provider.record.calls == {"authorization": 1, "token": 1, "userinfo": 1}


async def test_a_token_event_shows_the_request_without_the_client_secret(rp: BareClient) -> None:
    tokens = await rp.tokens()
    [event] = rp.provider.record.of(TokensIssued)
    assert event.grant_type == "authorization_code"
    assert set(event.parameters) == {"grant_type", "code", "redirect_uri", "code_verifier"}
    assert tokens["access_token"] not in repr(rp.provider.record.events)


async def test_clear_forgets_events_but_no_session(rp: BareClient) -> None:
    await rp.code()
    rp.provider.record.clear()
    assert rp.provider.record.of(SignedIn) == []
    assert not rp.provider.record.calls
    assert "code" in await rp.answer(prompt="none", login_hint="")
