from tests.oidc.testing.bare_client import BareClient


async def test_a_repeated_edit_replaces_the_first_and_clear_ends_them(rp: BareClient) -> None:
    rp.provider.edits.put("userinfo", lambda claims: claims | {"first": True})
    rp.provider.edits.put("userinfo", lambda claims: claims | {"second": True})
    token = (await rp.tokens())["access_token"]
    edited = (await rp.userinfo(token)).json()
    assert "first" not in edited
    assert edited["second"]
    rp.provider.edits.clear()
    assert "second" not in (await rp.userinfo(token)).json()
