"""The setups of the pages, whole: files, servers and a browser."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from fastapi_oidc.testing import DevClient, DevProvider, DevUser
from tests.chromium import close_context
from tests.oidc.real_op.serving import free_socket, serving
from tests.oidc.world import client_at
from tests.packaging.pages import blocks, environment, run, text_of

FRONT_END = """<!doctype html><title>Front end</title><link rel="icon" href="data:,">
<h1></h1><p></p><button type="button">Create</button>
<form method="post" action="/auth/logout"><button>Sign out</button></form>
<script type="module">
import { call } from './call.js'
document.querySelector('h1').textContent = (await (await call('/api/me')).json()).name
document.querySelector('button').onclick = async () => {
  const response = await call('/api/machines', { method: 'POST' })
  document.querySelector('p').textContent = (await response.json()).state
}
</script>"""


@dataclass
class Setup:
    """A provider, servers and the folder of the application."""

    stack: ExitStack
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    provider: DevProvider = field(init=False)
    issuer: str = field(init=False)

    def __post_init__(self) -> None:
        client = DevClient(client_id="app", any_local_uri=True)
        self.provider = DevProvider(users=[DevUser("alice", "Alice")], clients=[client])
        self.issuer = self.stack.enter_context(self.provider.serve())

    def origin(self) -> tuple[Any, str]:
        """A socket, and the origin that it serves."""
        return self.stack.enter_context(free_socket())

    def serve(self, app: ASGIApp, listener: Any) -> None:
        self.stack.enter_context(serving(app, listener))

    def settings(self, origin: str, **more: str) -> None:
        """The environment of an application at `origin`."""
        more["OIDC_ALLOW_INSECURE_HTTP"] = "true"
        for name, value in environment(self.issuer, origin, **more).items():
            self.monkeypatch.setenv(name, value)

    def page(self, name: str, **replaced: str) -> ModuleType:
        """The module that the Python blocks of a page make, with other URLs."""
        urls = {f"https://{old}.example.com": new for old, new in replaced.items()}
        return run(name, self.monkeypatch, urls)


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        yield Setup(stack, tmp_path, monkeypatch)


@pytest.fixture
def browser(setup: Setup, chromium: Browser) -> Iterator[Page]:
    """A page that is closed before the servers end."""
    page = chromium.new_page()
    yield page
    close_context(page.context)


def front_end(folder: Path, origin: str = "") -> Path:
    """The files of the front end; its calls are those of the page."""
    folder.mkdir(exist_ok=True)
    script = blocks(text_of("single-page-applications.md"), "js")[0]
    (folder / "call.js").write_text(script.replace("origin = ''", f"origin = '{origin}'"))
    (folder / "index.html").write_text(FRONT_END)
    return folder


def create_a_machine(page: Page) -> None:
    page.get_by_role("button", name="Alice").click()
    expect(page.locator("h1")).to_have_text("Alice")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("p")).to_have_text("created")


def test_a_single_page_application(setup: Setup, browser: Page) -> None:
    listener, origin = setup.origin()
    setup.settings(origin)
    front_end(setup.folder / "dist")
    setup.serve(setup.page("single-page-applications.md").app, listener)
    assert httpx.get(f"{origin}/api/me").json()["code"] == "session.required"
    browser.goto(f"{origin}/?tab=2")
    create_a_machine(browser)
    assert browser.url == f"{origin}/?tab=2"
    assert browser.request.post(f"{origin}/api/machines").status == 403, "it sent no token"
    browser.get_by_role("button", name="Sign out").click()
    expect(browser.get_by_role("heading")).to_have_text("Sign in")
    assert browser.url.startswith(setup.issuer)


def test_a_front_end_at_another_origin(setup: Setup, browser: Page) -> None:
    listener, origin = setup.origin()
    listener_of_pages, pages = setup.origin()
    setup.settings(origin, OIDC_TRUSTED_ORIGINS=pages)
    setup.serve(setup.page("single-page-applications.md", pages=pages).api_app, listener)
    files = StaticFiles(directory=front_end(setup.folder / "pages", origin), html=True)
    setup.serve(Starlette(routes=[Mount("/", files)]), listener_of_pages)
    browser.goto(pages)
    create_a_machine(browser)
    assert browser.url == f"{pages}/"


def test_a_login_shared_by_subdomains(setup: Setup, browser: Page) -> None:
    """Chromium resolves the names below `localhost` itself."""
    places = {}
    for name in ("notes", "files"):
        listener, origin = setup.origin()
        places[name] = (listener, origin.replace("127.0.0.1", f"{name}.localhost"))
        routes = f"{places[name][1]}/auth"
        back_channel = f"{origin}/auth/backchannel-logout"
        client = client_at(
            routes=routes, client_id=name, client_secret=None, backchannel_logout_uri=back_channel
        )
        setup.provider._state.clients[name] = client  # type: ignore[index]
        setup.settings(places[name][1], OIDC_CLIENT_ID=name)
        app = setup.page("subdomains.md").app
        setup.serve(app, listener)
    (_, notes), (_, files) = places.values()
    browser.goto(f"{notes}/me")
    browser.get_by_role("button", name="Alice").click()
    expect(browser.locator("body")).to_contain_text("alice")
    browser.goto(f"{files}/me")
    assert browser.url == f"{files}/me", "the provider shows no page again"
    browser.goto(f"{notes}/")
    with browser.expect_response(re.compile("/auth/logged-out")):
        browser.get_by_role("button", name="Sign out").click()
    browser.goto(f"{files}/me")
    expect(browser.get_by_role("heading")).to_have_text("Sign in")


def without_prefix(app: ASGIApp, prefix: str) -> ASGIApp:
    """A proxy that removes a path prefix, and knows no other path."""

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            assert scope["path"].startswith(prefix), scope["path"]
            path = scope["path"].removeprefix(prefix)
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await app(scope, receive, send)

    return proxy


def test_a_proxy_that_removes_a_prefix(setup: Setup, browser: Page) -> None:
    listener, origin = setup.origin()
    setup.settings(origin)
    app = setup.page("pages-and-forms.md").app
    app.root_path = "/prefix"
    template = blocks(text_of("pages-and-forms.md"), "html")
    (setup.folder / "templates/notes.html").write_text(template[0] + template[1])
    setup.serve(without_prefix(app, "/prefix"), listener)
    browser.goto(f"{origin}/prefix/notes")
    browser.get_by_role("button", name="Alice").click()
    expect(browser.locator("body")).to_contain_text("Notes of Alice")
    assert browser.url == f"{origin}/prefix/notes"
