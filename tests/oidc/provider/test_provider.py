"""The token endpoint: both grants, client authentication, refusals (RFC 6749 5)."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.errors import Code, OIDCError, ProviderError
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.protocol.downstream import ActorToken, DownstreamAPI, exchange_grant
from fastapi_oidc.protocol.encoding import CompactJWS
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.protocol.refusal import RefusedGrant, TokenRefused
from fastapi_oidc.protocol.token import TokenResponse, authorization_code_grant
from fastapi_oidc.provider.provider import Provider
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import ISSUER, METADATA, NOW, OP, SigningKey


@pytest.mark.parametrize(
    ("choice", "audience"), [("issuer", ISSUER), ("token_endpoint", "https://op.test/token")]
)
async def test_an_assertion_has_the_chosen_audience(op: OP, choice: str, audience: str) -> None:
    signer = Signer.of_private_key(Ed25519PrivateKey.generate())
    authentication = ClientAuthentication("private_key_jwt", "console", signer=signer)
    provider = op.provider(
        authentication=authentication,
        assertion_audience="issuer" if choice == "issuer" else "token_endpoint",
    )
    await provider.refresh("rt")
    claims = CompactJWS.parse(op.last_form()["client_assertion"]).claims()
    assert (claims["aud"], claims["iat"]) == (audience, NOW)
    await provider.refresh("rt")
    assert CompactJWS.parse(op.last_form()["client_assertion"]).claims()["jti"] != claims["jti"]


@pytest.mark.parametrize(
    ("status", "media_type", "body"),
    [
        (404, "text/plain", "404 page not found"),
        (403, "text/html", "<h1>Forbidden</h1>"),
        (403, "application/json", '{"message": "Forbidden"}'),
        (401, "text/html", ""),
        (400, "text/html", "<h1>Bad request</h1>"),
        (400, "application/json", '{"error": ["invalid_grant"]}'),
    ],
)
async def test_no_oauth_error_no_refusal(op: OP, status: int, media_type: str, body: str) -> None:
    """The page of a proxy without its backend, and of a firewall."""
    op.answer_text("/token", body, media_type, status=status)
    with pytest.raises(ProviderError, match=f"HTTP {status}.*a proxy or a firewall") as caught:
        await op.provider().refresh("rt")
    assert caught.value.code is Code.PROVIDER_REFUSAL_UNREADABLE
    assert caught.value.status == 503
    assert not isinstance(caught.value, TokenRefused)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *[(status, "invalid_grant") for status in (201, 408, 429, 500, 502, 503)],
        *[(400, "server_error"), (400, "temporarily_unavailable")],
    ],
)
async def test_what_may_pass_is_no_refusal(op: OP, status: int, error: str) -> None:
    op.answer("/token", {"error": error}, status=status)
    said = f": {error}" if status == 400 else ""
    with pytest.raises(ProviderError, match=f"HTTP {status}{said}") as caught:
        await op.provider().refresh("rt")
    assert caught.value.code == Code.PROVIDER_STATUS
    assert not isinstance(caught.value, TokenRefused)


async def test_an_error_under_status_200_is_that_error(op: OP) -> None:
    op.answer("/token", {"error": "invalid_grant", "error_description": "over"})
    with pytest.raises(RefusedGrant, match=r"the provider returned invalid_grant \(over\)"):
        await op.provider().refresh("rt")


async def test_a_revocation_with_status_200_is_done_whatever_its_body_says(op: OP) -> None:
    """RFC 7009 2.2."""
    op.answer("/revoke", {"error": "unsupported_token_type"})
    await op.provider().revoke("rt", "refresh_token")
    assert op.asked("/revoke") == 1


async def test_no_error_holds_a_secret(op: OP) -> None:
    op.answer_text("/token", '{"access_token": "secret-at", ', "application/json")
    with pytest.raises(ProviderError) as caught:
        TokenResponse.read(await op.provider().refresh("secret-rt"))
    assert caught.value.code == Code.TOKEN_MALFORMED
    told = [str(caught.value), str(caught.value.details), repr(caught.value.__cause__)]
    assert "secret" not in "".join(told)


DISCOVERY = "/tenant/.well-known/openid-configuration"


async def test_an_optional_endpoint_that_is_ignored_is_in_the_log(
    op: OP, caplog: pytest.LogCaptureFixture
) -> None:
    op.answer(DISCOVERY, {**METADATA, "check_session_iframe": "http://op.test/session"})
    assert (await op.provider().metadata()).check_session_iframe is None
    assert caplog.messages == [
        f"https://op.test{DISCOVERY}: check_session_iframe is not https; it counts as absent"
    ]


@pytest.mark.parametrize("status", [201, 400, 404, 500, 503])
async def test_another_status_than_200_is_refused(op: OP, status: int) -> None:
    op.answer(DISCOVERY, METADATA, status=status)
    with refused(Code.PROVIDER_STATUS, ProviderError):
        await op.provider().metadata()


PARAMETERS = {"client_id": "console", "scope": "openid", "state": "s"}


async def test_a_refused_push_is_named(op: OP) -> None:
    op.answer("/par", {"error": "invalid_client"}, status=401)
    with refused(Code.TOKEN_INVALID_CLIENT, ProviderError):
        await op.provider().authorization_url(PARAMETERS, is_pushed=True)


async def test_a_url_extends_the_query_of_its_endpoint(op: OP) -> None:
    endpoint = "https://op.test/authorize?tenant=1"
    op.answer(DISCOVERY, {**METADATA, "authorization_endpoint": endpoint})
    url = await op.provider().authorization_url(PARAMETERS, is_pushed=False)
    assert url == f"{endpoint}&{urlencode(PARAMETERS)}"


async def test_a_provider_whose_tokens_are_signed_with_the_secret_needs_no_keys(op: OP) -> None:
    provider = op.provider(algorithms=["HS256"])
    await provider.prepare_refresh()
    token = Signer.of_secret("s" * 32, "HS256").sign(SIGNED)
    assert (await provider.verify(token)).claims == SIGNED
    assert op.asked("/jwks") == 0


@pytest.mark.parametrize("status", [200, 302, 404])
async def test_a_provider_that_answers_is_reachable(op: OP, status: int) -> None:
    op.answer(DISCOVERY, {}, status=status)
    assert await op.provider().is_reachable()


async def test_what_is_remembered_does_not_make_a_provider_reachable(op: OP) -> None:
    provider = op.provider()
    await provider.metadata()
    op.answer(DISCOVERY, {}, status=503)
    assert not await provider.is_reachable()
    op.break_off(DISCOVERY)
    assert not await provider.is_reachable()
    assert (await provider.metadata()).jwks_uri


SIGNED = {"sub": "alice", "iss": ISSUER, "aud": "console"}


def answer_signed(op: OP, claims: Mapping[str, object]) -> None:
    key = SigningKey("k")
    op.publish([key])
    op.answer_text("/userinfo", key.sign(claims), "application/jwt")


async def test_a_signed_answer_is_verified(op: OP) -> None:
    answer_signed(op, SIGNED)
    assert await op.provider().userinfo("at", sub="alice") == SIGNED


async def test_a_refused_access_token_is_a_status_that_says_how_to_do_without(op: OP) -> None:
    op.answer("/userinfo", {"error": "invalid_token"}, status=401)
    with pytest.raises(OIDCError, match="fetch_userinfo=False") as caught:
        await op.provider().userinfo("at", sub="alice")
    assert caught.value.code == Code.PROVIDER_STATUS


SECRETS = {
    "code": "c0de-of-one-login",
    "code_verifier": "v3rifier" * 6,
    "refresh_token": "r3fresh-t0ken",
    "access_token": "acc3ss-t0ken",
    "actor_token": "4ctor-t0ken",
    "client_secret": "s" * 32,
}


API = DownstreamAPI(grant="token_exchange", audience="https://api.test")


async def made(call: str, provider: Provider) -> object:
    code = AuthorizationCode(SECRETS["code"])
    match call:
        case "code":
            grant = authorization_code_grant(code, "https://a.test/", SECRETS["code_verifier"])
            return await provider.obtain(grant)
        case "exchange":
            actor = ActorToken(SECRETS["actor_token"])
            return await provider.obtain(exchange_grant(API, SECRETS["access_token"], actor))
        case "refresh":
            return await provider.refresh(SECRETS["refresh_token"])
        case "revoke":
            await provider.revoke(SECRETS["refresh_token"], "refresh_token")
            return None
    return await provider.userinfo(SECRETS["access_token"], sub="alice")


async def account_of(op: OP, call: str) -> str:
    authentication = ClientAuthentication("client_secret_post", "console", SECRETS["client_secret"])
    with pytest.raises(OIDCError) as caught:
        await made(call, op.provider(authentication=authentication))
    return f"{caught.value} {caught.value.message}"


PATHS = dict.fromkeys(("code", "exchange", "refresh"), "/token")
PATHS |= {"revoke": "/revoke", "userinfo": "/userinfo"}


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
        "exchange": ("access_token", "actor_token", "client_secret"),
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
