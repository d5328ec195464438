"""The applications of docs/sign-in.md, pages-and-forms.md and protect-everything.md do what these
pages say."""

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

import fastapi_oidc
from fastapi_oidc import OIDC, LoginOptions, OIDCSettings
from fastapi_oidc.testing import (
    AuthorizationRequested,
    DevClient,
    DevProvider,
    DevUser,
    TokensIssued,
    sign_in,
    sign_in_sync,
)
from fastapi_oidc.web.login_query import PARAMETERS
from tests.examples.programs import new_browser
from tests.oidc.world import BASE_URL, application, client_at
from tests.packaging.built import REPOSITORY
from tests.packaging.pages import blocks, environment, run, text_of
from tests.packaging.tutorial import Reader

USERS = (DevUser("alice", "Alice"), DevUser("bob", "Bob", "bob@example.com"))
PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin", "accept": "text/html"}


class Served:
    """The application of one page, and a browser."""

    def __init__(
        self, page: str, monkeypatch: pytest.MonkeyPatch, users: Sequence[DevUser] = USERS
    ) -> None:
        client = client_at()
        self.provider = DevProvider(users=users, clients=[client])
        transport = httpx.ASGITransport(self.provider.app)
        monkeypatch.setattr(fastapi_oidc, "OIDC", partial(fastapi_oidc.OIDC, transport=transport))
        variables = environment(self.provider.issuer, BASE_URL)
        variables["OIDC_CLIENT_SECRET"] = client.client_secret or ""
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        self.text = text_of(page)
        self.module = run(page, monkeypatch)

    @contextmanager
    def browser(self, app: str = "app") -> Iterator[TestClient]:
        served = self.module.__dict__[app]
        with self.provider.test_client(served, base_url=BASE_URL) as client:
            yield client


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_link_signs_in_and_a_button_offers_another_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = Served("sign-in.md", monkeypatch)
    [link] = re.findall(r'<a href="([^"]+)"', page.text)
    [(name, value)] = re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', page.text)
    with page.browser() as browser:
        assert sign_in_sync(browser, link, user="bob").url.path == "/notes"
        assert browser.get(link).url.path == "/notes", "the provider shows no page again"
        asked = browser.get("/auth/login", params={name: value})
        assert asked.url.path == "/authorize"


def test_the_hooks_of_a_login_respond_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Served("sign-in.md", monkeypatch)
    with page.browser() as browser:
        assert browser.get("/auth/login?prompt=none").url.path == "/"
        turned_away = sign_in_sync(browser, "/auth/login?return_to=/notes", user="alice")
        assert turned_away.url.path == "/no-address"
        assert not browser.get("/auth/session").json()["is_authenticated"]
        lost = browser.get("/auth/callback?state=unknown", headers=PAGE)
        assert "Sign in" in lost.text


def test_a_login_from_code_sends_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Served("sign-in.md", monkeypatch)
    with page.browser() as browser:
        assert sign_in_sync(browser, "/join/acme", user="bob").url.path == "/welcome"
    [asked] = page.provider.record.of(AuthorizationRequested)
    assert {
        "prompt": "select_account",
        "login_hint": "alice@example.com",
        "scope": "openid profile email calendar",
        "ui_locales": "de",
        "organization": "acme",
    }.items() <= asked.parameters.items()


def test_the_page_lists_every_parameter_of_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Served("sign-in.md", monkeypatch)
    rows = [line.split(" | ") for line in page.text.splitlines() if line.startswith("| ")][1:]
    query, options = ({row[column].strip("| `") for row in rows} - {""} for column in (0, 1))
    assert query == {*PARAMETERS} - {"silent"}
    assert options == {each.name for each in fields(LoginOptions)} - {"silent"}
    with page.browser() as browser:
        assert browser.get("/auth/login?max_age=soon").status_code == 422


def test_a_form_brings_the_token_of_its_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Served("pages-and-forms.md", monkeypatch)
    html = blocks(page.text, "html")
    (folder / "templates/notes.html").write_text(html[0] + html[1])
    with page.browser() as browser:
        shown = sign_in_sync(browser, "/notes", user="alice")
        assert "Notes of Alice" in shown.text
        assert "Signed in as Alice" in shown.text
        token = re.search(r'name="csrf_token" value="([^"]+)"', shown.text)
        assert token is not None
        added = browser.post("/notes", data={"csrf_token": token[1], "text": "Water <plants>"})
        assert "<li>Water &lt;plants&gt;</li>" in added.text
        refused = browser.post("/notes", data={"text": "no token"})
        assert (refused.status_code, refused.json()["code"]) == (403, "session.csrf")
        browser.post("/auth/logout", headers=PAGE)
        assert browser.get("/notes").status_code == 401


def test_everything_is_protected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Served("protect-everything.md", monkeypatch)
    (folder / "reports/one.txt").write_text("a report")

    admin: FastAPI = page.module.admin

    @admin.get("/panel")
    async def panel() -> str:
        return "the panel"

    with page.browser() as browser:
        for path in ("/reports/one.txt", "/admin/panel"):
            assert browser.get(path).status_code == 401
            sent = browser.get(path, headers=PAGE, follow_redirects=False)
            assert sent.headers["location"].startswith("/auth/login?return_to=")
        with pytest.raises(WebSocketDisconnect), browser.websocket_connect("wss://app.test/ticks"):
            raise AssertionError("it was accepted")
        assert sign_in_sync(browser, "/reports/one.txt", user="alice").text == "a report"
        assert browser.get("/admin/panel").json() == "the panel"
        with browser.websocket_connect("wss://app.test/ticks") as socket:
            assert socket.receive_text() == "tick"
            browser.post("/auth/logout", headers=PAGE)
            socket.send_text("go on")
            with pytest.raises(WebSocketDisconnect):
                socket.receive_text()
    page.module.test_everything_is_protected()


def test_some_of_it_is_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Served("protect-everything.md", monkeypatch)
    with page.browser("mixed") as browser:
        assert browser.get("/health").json() == "ok"
        assert browser.get("/staff/machines").status_code == 401


# The settings of docs/conformance.md for the FAPI 2.0 Security Profile sign a user in.


async def test_the_settings_of_the_page_sign_a_user_in(monkeypatch: pytest.MonkeyPatch) -> None:
    key = generate_private_key(65537, 2048)
    page = text_of("conformance.md").partition("## FAPI 2.0 in one step")[2]
    block = blocks(page, "sh")[0]
    chosen = dict(line.split("=", 1) for line in shlex.split(block))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    op = DevProvider(
        users=[DevUser("alice")],
        clients=[
            DevClient(
                client_id="app",
                redirect_uris=[f"{BASE_URL}/auth/callback"],
                token_endpoint_auth_method="private_key_jwt",
                public_key=public.decode(),
                id_token_signed_response_alg="PS256",
                require_pushed_authorization_requests=True,
                dpop_bound_access_tokens=True,
            )
        ],
    )
    common = environment(op.issuer, BASE_URL, OIDC_CLIENT_PRIVATE_KEY=pem)
    for name, value in (chosen | common).items():
        monkeypatch.setenv(name, value)
    oidc = OIDC(OIDCSettings(), transport=httpx.ASGITransport(op.app))
    async with op.browser(application(oidc, None, {}), base_url=BASE_URL) as browser:
        answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    assert answer.json()["sub"] == "alice"
    assert [asked.pushed for asked in op.record.of(AuthorizationRequested)] == [True]
    assert len(op.record.of(TokensIssued)) == 1


# The README's application, started as the README says: two commands in two terminals.


README = (REPOSITORY / "README.md").read_text()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    (tmp_path / "app.py").write_text(blocks(README)[0])
    reader = Reader(tmp_path)
    with reader.two_terminals():
        yield reader


def test_it_names_the_two_commands() -> None:
    assert "\npython -m fastapi_oidc.testing\n" in README
    assert "\nuvicorn app:app " in README


def test_the_first_page_leads_to_the_login_and_to_the_sign_out(reader: Reader) -> None:
    for host in ("127.0.0.1", "localhost"):
        with new_browser() as browser:
            page = sign_in_sync(browser, f"http://{host}:{reader.port}/me", user="alice")
        assert str(page.url) == f"{reader.address}/me"
        assert page.json()["name"] == "Alice Example"

    headers = {"accept": "text/html", "origin": reader.address}
    with new_browser(base_url=reader.address, headers=headers, follow_redirects=True) as browser:
        home = browser.get("/")
        [link] = re.findall(r'<a href="(.*?)">', home.text)
        [(method, action)] = re.findall(r'<form method="(.*?)" action="(.*?)">', home.text)
        assert sign_in_sync(browser, link, user="alice").json()["name"] == "Alice Example"
        for _ in range(2):
            after = browser.request(method, action)
            assert (str(after.url), after.text) == (f"{reader.address}/", home.text)
            assert browser.get(link, follow_redirects=False).status_code == 302
        assert "Sign in" in browser.get(link).text, "the session at the provider has ended too"
