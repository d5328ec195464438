"""What a log line says of a refusal, and what it never says."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.errors import Code, OIDCError, ProviderError
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.client_auth import ClientSecretPost
from fastapi_oidc.provider import Provider
from tests.oidc.provider.op import METADATA, OP

DISCOVERY = "/tenant/.well-known/openid-configuration"
SECRETS = {
    "code": "c0de-of-one-login",
    "code_verifier": "v3rifier" * 6,
    "refresh_token": "r3fresh-t0ken",
    "access_token": "acc3ss-t0ken",
    "client_secret": "s" * 32,
}


async def made(call: str, provider: Provider) -> object:
    code = AuthorizationCode(SECRETS["code"])
    match call:
        case "code":
            return await provider.exchange_code(code, "https://a.test/", SECRETS["code_verifier"])
        case "refresh":
            return await provider.refresh(SECRETS["refresh_token"])
        case "revoke":
            await provider.revoke(SECRETS["refresh_token"], "refresh_token")
            return None
    return await provider.userinfo(SECRETS["access_token"], sub="alice")


async def account_of(op: OP, call: str) -> str:
    authentication = ClientSecretPost("console", SECRETS["client_secret"])
    with pytest.raises(OIDCError) as caught:
        await made(call, op.provider(authentication=authentication))
    return f"{caught.value} {caught.value.message}"


PATHS = {"code": "/token", "refresh": "/token", "revoke": "/revoke", "userinfo": "/userinfo"}


async def test_an_issuer_at_which_there_is_nothing_is_the_setting_to_look_at(op: OP) -> None:
    op.answer(DISCOVERY, {}, status=404)
    with pytest.raises(ProviderError) as caught:
        await op.provider().metadata()
    assert caught.value.message == (
        "HTTP 404; the setting issuer is what comes before /.well-known"
        f" (url=https://op.test{DISCOVERY}, status=404)"
    )


@pytest.mark.parametrize("call", PATHS)
@given(data=st.data(), status=st.sampled_from([400, 401, 403, 429, 500, 503]))
async def test_a_provider_that_repeats_secrets_puts_none_into_the_log(
    call: str, data: st.DataObject, status: int
) -> None:
    op = OP()
    parts = st.sampled_from([*SECRETS.values(), " ", "\n", "x", "invalid_grant"])
    text = "".join(data.draw(st.lists(parts, max_size=6)))
    forms = st.sampled_from([{"error": text}, {"error": "x", "error_description": text}, text])
    op.answer(PATHS[call], data.draw(forms), status=status)
    account = await account_of(op, call)
    sent = {
        "code": ("code", "code_verifier", "client_secret"),
        "refresh": ("refresh_token", "client_secret"),
        "revoke": ("refresh_token", "client_secret"),
        "userinfo": ("access_token",),
    }[call]
    assert [name for name in sent if SECRETS[name] in account] == []
    assert account.isprintable()


async def test_the_query_of_an_endpoint_is_not_told(op: OP) -> None:
    token_endpoint = "https://op.test/token?key=" + quote("s3cret")
    op.answer(DISCOVERY, {**METADATA, "token_endpoint": token_endpoint})
    op.break_off("/token")
    account = await account_of(op, "refresh")
    assert "s3cret" not in account
    assert "https://op.test/token" in account
    assert str(Code.PROVIDER_UNREACHABLE) in account
