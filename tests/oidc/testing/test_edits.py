import pytest

from fastapi_oidc.testing.faults import Message
from tests.oidc.testing.bare_client import BareClient, jwt_parts, returned


async def test_an_edit_changes_what_is_signed(rp: BareClient) -> None:
    rp.provider.edits.put("id_token", lambda claims: claims | {"iss": "https://evil.test"})
    rp.provider.edits.put("id_token_header", lambda header: header | {"kid": "unknown"})
    header, claims = jwt_parts((await rp.tokens())["id_token"])
    assert (header["kid"], claims["iss"]) == ("unknown", "https://evil.test")


@pytest.mark.parametrize(
    ("message", "path"), [("metadata", "/.well-known/openid-configuration"), ("jwks", "/jwks")]
)
async def test_an_edit_changes_what_is_published(
    rp: BareClient, message: Message, path: str
) -> None:
    rp.provider.edits.put(message, lambda _: {"edited": True})
    assert (await rp.http.get(path)).json() == {"edited": True}


async def test_an_edit_changes_answers(rp: BareClient) -> None:
    rp.provider.edits.put("authorization_response", lambda members: members | {"state": "other"})
    rp.provider.edits.put("token_response", lambda members: members | {"token_type": "MAC"})
    rp.provider.edits.put("userinfo", lambda claims: claims | {"sub": "mallory"})
    assert returned(await rp.authorize())["state"] == "other"
    tokens = await rp.tokens()
    assert tokens["token_type"] == "MAC"
    assert (await rp.userinfo(tokens["access_token"])).json()["sub"] == "mallory"


async def test_a_repeated_edit_replaces_the_first_and_clear_ends_them(rp: BareClient) -> None:
    rp.provider.edits.put("userinfo", lambda claims: claims | {"first": True})
    rp.provider.edits.put("userinfo", lambda claims: claims | {"second": True})
    token = (await rp.tokens())["access_token"]
    edited = (await rp.userinfo(token)).json()
    assert "first" not in edited
    assert edited["second"]
    rp.provider.edits.clear()
    assert "second" not in (await rp.userinfo(token)).json()
