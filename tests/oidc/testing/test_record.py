from fastapi_oidc.testing import SignedIn
from tests.oidc.testing.bare_client import BareClient


async def test_clear_forgets_events_but_no_session(rp: BareClient) -> None:
    await rp.code()
    rp.provider.record.clear()
    assert rp.provider.record.of(SignedIn) == []
    assert not rp.provider.record.calls
    assert "code" in await rp.answer(prompt="none", login_hint="")
