"""DevProvider beside the flow: its log, faults, memory, step-ups and bound tokens."""

import json
import logging
import socket
import time
from dataclasses import replace

import httpx
import pytest

from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.testing import (
    AnswerLost,
    Delay,
    DevClient,
    DevProvider,
    Drip,
    ServerError,
    SignedIn,
    grants,
)
from fastapi_oidc.testing.grants import REUSE_IS_TOLD, OPSession, OPSessions
from tests.oidc.testing.bare_client import ALICE, APP, BareClient, bare_client, jwt_parts


@pytest.fixture
def provider() -> DevProvider:
    return DevProvider(users=[ALICE], clients=[APP])


def test_the_socket_becomes_the_issuer_on_this_machine_alone_and_says_what_it_is_for(
    provider: DevProvider, caplog: pytest.LogCaptureFixture
) -> None:
    assert provider.issuer == "https://op.test"
    with provider.serve() as issuer:
        assert issuer == provider.issuer
        assert issuer.startswith("http://127.0.0.1:")
        metadata = httpx.get(issuer + "/.well-known/openid-configuration").json()
        port = int(issuer.rpartition(":")[2])
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port))
    assert metadata["issuer"] == issuer
    assert metadata["token_endpoint"] == issuer + "/token"
    [record] = [record for record in caplog.records if record.name.startswith("fastapi_oidc")]
    assert record.levelno == logging.WARNING
    assert "DEVELOPMENT ONLY" in record.getMessage()


async def test_a_lost_answer_had_its_effect(rp: BareClient) -> None:
    refresh_token = (await rp.tokens())["refresh_token"]
    rp.provider.faults.put("token", AnswerLost())
    assert (await rp.refresh(refresh_token)).status_code == 502
    assert (await rp.refresh(refresh_token)).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(("fault", "least"), [(Delay(0.05), 0.05), (Drip(0.0), 0)])
async def test_a_slow_answer_is_the_right_one(
    rp: BareClient, fault: Delay | Drip, least: float
) -> None:
    rp.provider.faults.put("jwks", fault)
    begun = time.monotonic()
    slow = await rp.http.get("/jwks")
    assert time.monotonic() - begun >= least
    assert slow.json() == (await rp.http.get("/jwks")).json()


def test_a_drip_gives_the_right_answer_slowly(rp: BareClient) -> None:
    rp.provider.faults.put("jwks", Drip(0.5))
    with rp.provider.serve() as issuer, httpx.Client(base_url=issuer, timeout=60) as http:
        with http.stream("GET", "/jwks") as answer:
            first = next(answer.iter_raw(1))
        assert (answer.status_code, first) == (200, b"{")


@pytest.mark.parametrize("path", ["/authorize", "/end-session"])
async def test_pages_can_fail_too(rp: BareClient, path: str) -> None:
    rp.provider.faults.put("authorization", ServerError(502))
    rp.provider.faults.put("end_session", ServerError(502))
    assert (await rp.http.get(path, params=rp.parameters())).status_code == 502


async def test_a_repeated_edit_replaces_the_first_and_clear_forgets_no_session(
    rp: BareClient,
) -> None:
    rp.provider.edits.put("userinfo", lambda claims: claims | {"first": True})
    rp.provider.edits.put("userinfo", lambda claims: claims | {"second": True})
    token = (await rp.tokens())["access_token"]
    edited = (await rp.userinfo(token)).json()
    assert ("first" in edited, "second" in edited) == (False, True)
    rp.provider.edits.clear()
    assert "second" not in (await rp.userinfo(token)).json()
    rp.provider.record.clear()
    assert rp.provider.record.of(SignedIn) == []
    assert not rp.provider.record.calls
    assert "code" in await rp.answer(prompt="none", login_hint="")


def test_beyond_the_limit_the_oldest_session_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "LIMIT", 2)
    sessions = OPSessions()
    began = [sessions.begin(OPSession(ALICE, auth_time)) for auth_time in range(3)]
    assert sessions.of_user(ALICE.sub) == began[1:]


async def test_reuse_of_any_earlier_refresh_token_ends_the_grant(rp: BareClient) -> None:
    newest = await rp.tokens()
    first = newest["refresh_token"]
    for _ in range(3):
        rp.time.now += 24 * 3600
        newest = (await rp.refresh(newest["refresh_token"])).json()
    assert "used before" in (await rp.refresh(first)).text
    assert "revoked" in (await rp.refresh(newest["refresh_token"])).text
    assert (await rp.userinfo(newest["access_token"])).status_code == 401


async def test_reuse_of_a_code_is_told_for_an_hour(rp: BareClient) -> None:
    code = await rp.code()
    tokens = (await rp.exchange(code)).json()
    rp.time.now += REUSE_IS_TOLD - 1
    assert "used before" in (await rp.exchange(code)).text
    assert "revoked" in (await rp.refresh(tokens["refresh_token"])).text


@pytest.fixture
def rp() -> BareClient:
    return bare_client(acr_values=("password", "otp"))


async def claims(rp: BareClient, **changes: str) -> dict[str, object]:
    return dict(jwt_parts((await rp.tokens(**changes))["id_token"])[1])


@pytest.mark.parametrize("member", [{"value": "otp"}, {"values": ["otp"], "essential": True}])
async def test_the_claims_parameter_demands_it(rp: BareClient, member: dict[str, object]) -> None:
    requested = json.dumps({"id_token": {"acr": member}})
    assert (await claims(rp, claims=requested))["acr"] == "otp"


async def test_a_value_that_is_unknown_is_ignored_unless_essential(rp: BareClient) -> None:
    assert (await claims(rp, acr_values="retina"))["acr"] == "password"
    requested = {"id_token": {"acr": {"values": ["retina"], "essential": True}}}
    answer = await rp.answer(claims=json.dumps(requested))
    assert answer["error"] == "unmet_authentication_requirements"


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"id_token": []}'])
async def test_claims_are_checked(rp: BareClient, text: str) -> None:
    assert (await rp.answer(claims=text))["error"] == "invalid_request"


async def test_a_silent_request_cannot_step_up(rp: BareClient) -> None:
    await claims(rp)
    for asked in ({"acr_values": "otp"}, {"max_age": "0"}):
        answer = await rp.answer(**asked, prompt="none", login_hint="")
        assert answer["error"] == "login_required"


async def test_the_person_is_asked_on_the_login_page(rp: BareClient) -> None:
    await claims(rp)
    assert "Sign in" in (await rp.authorize(acr_values="otp", login_hint="")).text
    assert "Sign in" in (await rp.authorize(max_age="0", login_hint="")).text


BOUND = replace(APP, access_token_format="jwt", dpop_bound_access_tokens=True)
PUBLIC = replace(APP, client_secret=None)


def proof(rp: BareClient, key: DPoPKey, path: str = "/token", **changes: str) -> str:
    method = "GET" if path == "/userinfo" else "POST"
    return key.proof(
        method,
        rp.provider.issuer + path,
        int(rp.time.now),
        access_token=changes.get("access_token"),
        nonce=changes.get("nonce"),
    )


async def tokens(rp: BareClient, key: DPoPKey) -> dict[str, str]:
    rp.http.headers["DPoP"] = proof(rp, key)
    found = await rp.tokens()
    del rp.http.headers["DPoP"]
    return found


async def userinfo(rp: BareClient, token: str, header: str, scheme: str = "DPoP") -> httpx.Response:
    headers = {"Authorization": f"{scheme} {token}", "DPoP": header}
    return await rp.http.get("/userinfo", headers=headers)


async def test_one_right_proof_is_needed_once_and_without_it_the_code_stays() -> None:
    rp, key = bare_client(BOUND), DPoPKey.new()
    code = await rp.code()
    assert (await rp.exchange(code)).json()["error"] == "invalid_dpop_proof"
    rp.http.headers["DPoP"] = proof(rp, key, "/elsewhere")
    assert (await rp.exchange(code)).json()["error"] == "invalid_dpop_proof"
    rp.http.headers["DPoP"] = proof(rp, key)
    exchanged = await rp.exchange(code)
    assert exchanged.status_code == 200
    refused = await rp.refresh(exchanged.json()["refresh_token"])
    assert refused.json()["error"] == "invalid_dpop_proof"
    headers = [("DPoP", proof(rp, key)), ("DPoP", proof(rp, key))]
    del rp.http.headers["DPoP"]
    form = {"grant_type": "refresh_token", "refresh_token": "any"}
    answer = await rp.http.post("/token", data=form, headers=headers, auth=rp.authorization)
    assert answer.json()["error"] == "invalid_dpop_proof"


@pytest.mark.parametrize(("client", "status"), [(PUBLIC, 400), (APP, 200)])
async def test_refresh_tokens_of_public_clients_are_bound(client: DevClient, status: int) -> None:
    rp = bare_client(client)
    rp.http.headers["DPoP"] = proof(rp, DPoPKey.new())
    found = (await rp.exchange(await rp.code(), client_id="app")).json()
    rp.http.headers["DPoP"] = proof(rp, DPoPKey.new())
    answer = await rp.refresh(found["refresh_token"], client_id="app")
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("scheme", "invalid_token"),
        ("key", "invalid_dpop_proof"),
        ("access_token", "invalid_dpop_proof"),
    ],
)
async def test_a_bound_token_needs_its_scheme_and_proof_for_user_info(
    wrong: str, error: str
) -> None:
    rp, key = bare_client(BOUND), DPoPKey.new()
    token = (await tokens(rp, key))["access_token"]
    signer = DPoPKey.new() if wrong == "key" else key
    about = "another" if wrong == "access_token" else token
    header = proof(rp, signer, "/userinfo", access_token=about)
    scheme = "Bearer" if wrong == "scheme" else "DPoP"
    refused = await userinfo(rp, token, header, scheme)
    assert (refused.status_code, refused.json()["error"]) == (401, error)


@pytest.mark.parametrize(("seconds", "is_told"), [(500, True), (600, False), (0.5, False)])
async def test_a_delay_that_seems_to_be_milliseconds(
    seconds: float, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    DevProvider(users=[ALICE], clients=[APP]).faults.put("jwks", Delay(seconds))
    assert len(caplog.messages) == is_told == caplog.text.count("Delay(500) is in seconds, which ")
