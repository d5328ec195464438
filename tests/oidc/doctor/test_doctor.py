"""Each fault of a provider or of the settings is one line that says what to put right."""

import json
import secrets
import subprocess
import sys
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from redis import Redis

from fastapi_oidc import OIDC, Clock, OIDCMiddleware
from fastapi_oidc.__main__ import main as commands
from fastapi_oidc.doctor import Verdict, examine
from fastapi_oidc.doctor.command import main
from fastapi_oidc.testing import (
    AuthorizationRequested,
    DevProvider,
    DevUser,
    OAuthError,
    ServerError,
    SignedIn,
    SignedOut,
    TokenRevoked,
    TokensIssued,
)
from fastapi_oidc.testing.faults import Endpoint, Fault
from tests.oidc.world import BASE_URL, client_at, settings_of
from tests.redis_server import running_redis

REPOSITORY = Path(__file__).parents[3]
UNAUTHORIZED = OAuthError("unauthorized_client", HTTPStatus.UNAUTHORIZED)
FORBIDDEN = OAuthError("unauthorized_client", HTTPStatus.FORBIDDEN)
UNAUTHORIZED_CLIENT = "token.invalid_client: the provider returned unauthorized_client"
CLIENT = client_at()
SECRET = str(CLIENT.client_secret)
COOKIE_SECRET = secrets.token_urlsafe(32)


@pytest.fixture
def op() -> DevProvider:
    return DevProvider(users=[DevUser("alice")], clients=[CLIENT])


async def found(
    op: DevProvider,
    *,
    dated: str | None = None,
    authorization: httpx.Response | None = None,
    **changes: Any,
) -> dict[tuple[Verdict, str], str]:
    """The texts by verdict and topic; of several the last."""
    transport = httpx.ASGITransport(op.app)

    async def answer(request: httpx.Request) -> httpx.Response:
        if authorization is not None and request.url.path == "/authorize":
            return authorization
        response = await transport.handle_async_request(request)
        body = await response.aread()
        headers = {**response.headers} | ({"Date": dated} if dated else {})
        return httpx.Response(response.status_code, headers=headers, content=body)

    findings = examine(
        settings_of(CLIENT, op, **changes),
        clock=Clock(read=lambda: 1_800_000_000.0),
        transport=httpx.MockTransport(answer),
    )
    return {(finding.verdict, finding.topic): finding.text async for finding in findings}


def faults(texts: dict[tuple[Verdict, str], str]) -> dict[str, str]:
    return {topic: text for (verdict, topic), text in texts.items() if verdict is Verdict.FAULT}


async def test_a_healthy_provider_has_no_fault(op: DevProvider) -> None:
    texts = await found(op, dated="Fri, 15 Jan 2027 08:00:10 GMT")
    assert faults(texts) == {}
    assert texts[Verdict.OK, "client"] == "app is accepted by the token endpoint"
    assert texts[Verdict.OK, "clock"].startswith("the provider's is 10 s ahead")
    assert texts[Verdict.OK, "redirect URI"].startswith(f"{BASE_URL}/auth/callback is accepted")
    assert texts[Verdict.OK, "endpoint"].startswith("introspection_endpoint: https://op.test/")
    assert texts[Verdict.NOTE, "register"].startswith(f"back-channel logout URI {BASE_URL}/auth/")
    assert "__Host-oidc_session" in texts[Verdict.NOTE, "cookie"]
    assert SECRET not in repr(texts)


def edited(**changes: Any) -> Callable[[DevProvider], None]:
    return lambda op: op.edits.put("metadata", lambda said: said | changes)


def failing(endpoint: Endpoint, fault: Fault) -> Callable[[DevProvider], None]:
    return lambda op: op.faults.put(endpoint, fault)


def refusing(error: str) -> Callable[[DevProvider], None]:
    return lambda op: op.edits.put("authorization_response", lambda said: {"error": error})


@pytest.mark.parametrize(
    ("break_it", "topic", "words"),
    [
        (failing("metadata", ServerError(503)), "provider", "HTTP 503"),
        (edited(issuer="https://op.test/"), "issuer", "'https://op.test/', the configured"),
        (edited(token_endpoint=None), "discovery", "token_endpoint"),
        (edited(jwks_uri="http://op.test/jwks"), "endpoint", "jwks_uri is not https"),
        (failing("jwks", ServerError(500)), "provider", "/jwks"),
        (lambda op: op.edits.put("jwks", lambda said: {"keys": []}), "keys", "none of 0 usable"),
        (
            edited(id_token_signing_alg_values_supported=["ES256"]),
            "algorithms",
            "signs with ['ES256'], pinned are ['RS256']: id_token_signing_algorithms",
        ),
        (failing("token", UNAUTHORIZED), "client", UNAUTHORIZED_CLIENT),
        (failing("token", FORBIDDEN), "client", UNAUTHORIZED_CLIENT),
        (failing("token", OAuthError("unsupported_grant_type")), "client", "gets invalid_grant"),
        (failing("token", ServerError(404)), "client", "HTTP 404"),
        (edited(userinfo_endpoint="https://op.test/x"), "endpoint", "test/x returned HTTP 404"),
        (refusing("unauthorized_client"), "redirect URI", "is this client allowed the authoriz"),
        (failing("authorization", ServerError(400)), "redirect URI", "HTTP 400"),
        (edited(code_challenge_methods_supported=["plain"]), "PKCE", "['plain']"),
        (edited(response_modes_supported=["fragment"]), "response mode", "not among ['fragment']"),
    ],
    ids=range(16),
)
async def test_one_fault_is_found_and_named(
    op: DevProvider, break_it: Callable[[DevProvider], None], topic: str, words: str
) -> None:
    break_it(op)
    told = faults(await found(op))
    assert list(told) == [topic]
    assert words in told[topic]


@pytest.mark.parametrize(
    ("endpoint", "answer", "topic"),
    [
        ("authorization", ServerError(401), "redirect URI"),  # Spring Authorization Server
        ("authorization", ServerError(500), "redirect URI"),  # django-oauth-toolkit
        ("token", OAuthError("invalid_code", HTTPStatus.FORBIDDEN), "client"),  # Glewlwyd
        ("token", OAuthError("invalid_request"), "client"),
        ("token", ServerError(500), "client"),
        ("userinfo", ServerError(500), "endpoint"),
    ],
)
async def test_what_a_provider_does_not_say_clearly_is_a_warning(
    op: DevProvider, endpoint: Any, answer: Any, topic: str
) -> None:
    op.faults.put(endpoint, answer)
    texts = await found(op)
    assert (Verdict.WARNING, topic) in texts
    assert faults(texts) == {}


@pytest.mark.parametrize(
    ("changes", "topic", "words"),
    [
        ({"client_secret": secrets.token_urlsafe(32)}, "client", "token.invalid_client"),
        ({"base_url": "https://other.test"}, "redirect URI", "is it registered? HTTP 400"),
    ],
)
async def test_a_setting_that_is_not_the_registered_one_is_a_fault(
    op: DevProvider, changes: dict[str, Any], topic: str, words: str
) -> None:
    assert words in faults(await found(op, **changes))[topic]


async def test_an_error_page_elsewhere_is_a_fault(op: DevProvider) -> None:
    """Ory Hydra redirects to its own error page."""
    location = "/fallback/error?error=invalid_request&error_description=no+such+redirect"
    answer = httpx.Response(303, headers={"Location": location})
    told = faults(await found(op, authorization=answer))
    assert "invalid_request (no such redirect)" in told["redirect URI"]


async def test_the_request_has_the_parameters_of_a_login(op: DevProvider) -> None:
    chosen: dict[str, Any] = {
        "scope": ["openid", "email"],
        "max_age": 600,
        "response_mode": "form_post",
        "extra_params": {"ui_locales": "de"},
    }
    texts = await found(op, **chosen)
    assert "is accepted with these settings" in texts[Verdict.OK, "redirect URI"]
    [asked] = op.record.of(AuthorizationRequested)
    oidc = OIDC(settings_of(CLIENT, op, **chosen), transport=httpx.ASGITransport(op.app))
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    async with op.browser(app, base_url=BASE_URL) as browser:
        login = await browser.get("/auth/login", params={"prompt": "none"}, follow_redirects=False)
        await browser.get(login.headers["location"])
    _, of_a_login = op.record.of(AuthorizationRequested)
    new = ("state", "nonce", "code_challenge")
    assert {name: value for name, value in asked.parameters.items() if name not in new} == {
        name: value for name, value in of_a_login.parameters.items() if name not in new
    }


async def test_a_refusal_in_a_form_is_read(op: DevProvider) -> None:
    refusing("invalid_scope")(op)
    texts = faults(await found(op, response_mode="form_post"))
    assert "invalid_scope" in texts["redirect URI"]


async def test_a_mode_that_the_provider_does_not_list_is_a_fault(op: DevProvider) -> None:
    edited(response_modes_supported=["query"])(op)
    assert faults(await found(op, response_mode="form_post")) == {
        "response mode": "form_post is not among ['query']: response_mode"
    }
    edited(response_modes_supported=None)(op)
    texts = await found(op, response_mode="form_post")
    assert faults(texts) == {}
    assert texts[Verdict.WARNING, "response mode"] == "form_post is not mentioned"


@pytest.mark.parametrize(
    ("authorization", "words"),
    [
        (httpx.Response(302, headers={"Location": "/in"}), "a redirect to https://op.test/in"),
        (httpx.Response(200, text="<h1>Sign in</h1>"), "a page"),
    ],
)
async def test_a_login_page_in_spite_of_prompt_none_decides_nothing(
    op: DevProvider, authorization: httpx.Response, words: str
) -> None:
    texts = await found(op, authorization=authorization)
    assert faults(texts) == {}
    assert texts[Verdict.WARNING, "redirect URI"].endswith(words)


async def test_a_request_that_must_be_pushed_is_pushed(op: DevProvider) -> None:
    texts = await found(op, use_par=True)
    assert faults(texts) == {}
    assert [asked.pushed for asked in op.record.of(AuthorizationRequested)] == [True]
    edited(pushed_authorization_request_endpoint=None)(op)
    assert "provider.endpoint_missing" in faults(await found(op, use_par=True))["redirect URI"]


async def test_dpop_is_named_when_it_is_asked_for(op: DevProvider) -> None:
    assert (await found(op, dpop=True))[Verdict.OK, "DPoP"] == "ES256 is accepted"
    assert not [topic for _, topic in await found(op) if topic == "DPoP"]
    edited(dpop_signing_alg_values_supported=["ES512"])(op)
    assert "ES512" in faults(await found(op, dpop=True))["DPoP"]
    edited(dpop_signing_alg_values_supported=None)(op)
    assert "not supported" in faults(await found(op, dpop=True))["DPoP"]
    assert faults(await found(op)) == {}


async def test_a_client_that_must_bind_its_tokens_is_asked_with_a_proof() -> None:
    client = client_at(client_secret=SECRET, dpop_bound_access_tokens=True)
    clock = Clock(read=lambda: 1_800_000_000.0)
    op = DevProvider(users=[DevUser("alice")], clients=[client], clock=clock)
    assert faults(await found(op, dpop=True)) == {}
    assert "invalid_dpop_proof" in faults(await found(op))["client"]


async def test_nothing_is_changed_at_the_provider(op: DevProvider) -> None:
    await found(op)
    changes = (TokensIssued, SignedIn, SignedOut, TokenRevoked)
    assert [event for kind in changes for event in op.record.of(kind)] == []


async def test_back_channel_logout_names_the_option_for_tokens_without_exp(op: DevProvider) -> None:
    text = (await found(op))[Verdict.OK, "back-channel logout"]
    assert text == "supported; tokens without exp are refused (logout_token_without_exp)"
    text = (await found(op, logout_token_without_exp=True))[Verdict.OK, "back-channel logout"]
    assert "are accepted" in text


async def test_an_offered_offline_access_is_missed_only_when_not_asked_for(op: DevProvider) -> None:
    assert "offline_access" in (await found(op))[Verdict.WARNING, "scope"]
    asked = await found(op, scope=["openid", "offline_access"])
    assert (Verdict.WARNING, "scope") not in asked


async def test_clocks_that_differ_by_more_than_the_drift_are_a_fault(op: DevProvider) -> None:
    told = faults(await found(op, dated="Fri, 15 Jan 2027 07:59:00 GMT"))
    assert told == {"clock": "the provider's is 60 s behind; here 08:00:00 UTC"}


@pytest.mark.parametrize(
    ("change", "topic", "words"),
    [
        ({"code_challenge_methods_supported": None}, "PKCE", "not mentioned"),
        ({"token_endpoint_auth_methods_supported": ["none"]}, "client", "client_secret_basic"),
        ({"scopes_supported": ["openid", "email"]}, "scope", "'profile'"),
        ({"backchannel_logout_supported": False}, "back-channel logout", "not supported"),
        ({"end_session_endpoint": None}, "endpoint", "no end_session_endpoint"),
        ({"revocation_endpoint": "http://op.test/x"}, "endpoint", "counts as absent"),
        ({"end_session_endpoint": "https://op.test/x"}, "endpoint", "returned HTTP 404"),
        ({"check_session_iframe": "https://op.test/x"}, "endpoint", "returned HTTP 404"),
        ({"revocation_endpoint": "https://op.test/x"}, "endpoint", "returned HTTP 404"),
    ],
)
async def test_what_only_may_be_missed_is_a_warning(
    op: DevProvider, change: dict[str, Any], topic: str, words: str
) -> None:
    edited(**change)(op)
    texts = await found(op)
    assert faults(texts) == {}
    assert words in texts[Verdict.WARNING, topic]


def arguments(op: DevProvider, *more: str) -> list[str]:
    chosen = {
        "issuer": op.issuer,
        "client_id": "app",
        "client_secret": SECRET,
        "OIDC_COOKIE_SECRET": COOKIE_SECRET,
        "base_url": BASE_URL,
    }
    return [*(f"{name}={value}" for name, value in chosen.items()), *more]


def test_the_command_prints_lines(op: DevProvider, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(op), transport=httpx.ASGITransport(op.app)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["ok", "discovery", f"{op.issuer}/.well-known/openid-configuration"]


def test_with_a_fault_it_ends_with_1_and_json_has_the_same(
    op: DevProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    op.faults.put("jwks", ServerError(503))
    assert main(arguments(op, "--json"), transport=httpx.ASGITransport(op.app)) == 1
    findings = json.loads(capsys.readouterr().out)
    assert [found["topic"] for found in findings if found["verdict"] == "fault"] == ["provider"]


@pytest.mark.parametrize(
    ("asked", "verdict", "text"),
    [
        ("maxmemory-policy volatile-lru", "warning", "noeviction"),
        ("maxmemory-policy noeviction", "ok", "it evicts no keys"),
        ("maxmemory 0", "ok", "it evicts no keys"),
        (None, "note", "may not read the policy"),
        ("down", "fault", "could not read"),
    ],
)
def test_a_redis_that_evicts_is_a_warning(
    op: DevProvider, capsys: pytest.CaptureFixture[str], asked: str | None, verdict: str, text: str
) -> None:
    with running_redis() as url, Redis.from_url(url) as client:
        client.config_set("maxmemory-policy", "volatile-lru")
        client.config_set("maxmemory", 50_000_000)
        if asked is None:
            client.execute_command("ACL SETUSER default -info")
        elif asked == "down":
            client.execute_command("ACL SETUSER default -mget")
        else:
            client.config_set(*asked.split())
        status = main(arguments(op, f"--redis={url}"), transport=httpx.ASGITransport(op.app))
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.split()[:2] == [verdict, "Redis"]
    assert text in line
    assert status == (verdict == "fault")


def test_without_settings_it_names_them_and_ends_with_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert commands(["doctor", "client_id=app"]) == 2
    complaints = capsys.readouterr().err
    assert "OIDC_ISSUER: is missing" in complaints
    assert "OIDC_CLIENT_ID" not in complaints


def test_whoever_stops_reading_gets_no_traceback(op: DevProvider) -> None:
    command = [sys.executable, "-m", "fastapi_oidc", "doctor", *arguments(op)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


async def test_introspection_is_rarely_needed(op: DevProvider) -> None:
    edited(introspection_endpoint=None)(op)
    text = (await found(op))[Verdict.OK, "endpoint"]
    assert text == "no introspection_endpoint: oidc.api(introspect=...) cannot be used"


def test_help_ends_with_0_and_any_other_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--help", "-h"):
        assert commands([option]) == 0
        assert "doctor" in capsys.readouterr().out
    assert commands(["nurse"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "doctor" in said.err


@pytest.mark.parametrize(
    ("base_url", "is_told"),
    [
        ("http://app.example.com", True),
        ("http://localhost:8000", False),
        ("https://app.example.com", False),
    ],
)
async def test_http_elsewhere_is_a_warning(op: DevProvider, base_url: str, is_told: bool) -> None:
    settings = settings_of(CLIENT, op, base_url=base_url, allow_insecure_http=True)
    findings = [each async for each in examine(settings, transport=httpx.ASGITransport(op.app))]
    told = [each for each in findings if "travel unencrypted" in each.text]
    assert [each.verdict for each in told] == ([Verdict.WARNING] if is_told else [])
