"""What a page of another site can do with the silent login: nothing."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fastapi_oidc.testing import SignedIn, SignedOut
from tests.browser.element import revalidate
from tests.browser.whole_path.world import World
from tests.oidc.real_op.serving import free_socket, serving

PAGE = """<!doctype html><title>Other site</title><link rel="icon" href="data:,">
<script>window.heard = []; onmessage = ({ data }) => heard.push(data)</script>"""


async def _attack(request: Request) -> Response:
    return HTMLResponse(PAGE)


@pytest.fixture(params=["localhost", "127.0.0.1"], ids=["other_site", "same_site_other_origin"])
def other_origin(request: pytest.FixtureRequest) -> Iterator[str]:
    """A page of another site, and one that is another origin of the same site."""
    app = Starlette(routes=[Route("/", _attack)])
    with free_socket() as (listener, origin), serving(app, listener):
        yield origin.replace("127.0.0.1", request.param)


@pytest.fixture
def attacker(page: Page, site: World, other_origin: str) -> Page:
    """A tab with the other page, in the browser of a user who is signed in."""
    site.sign_in(page)
    tab = page.context.new_page()
    tab.goto(other_origin)
    return tab


READ = """url => fetch(url, { credentials: 'include' })
  .then(answer => answer.text(), () => null)"""
FRAME = """async url => {
  const frame = document.createElement('iframe')
  frame.src = url
  document.body.append(frame)
  await new Promise(resolve => frame.addEventListener('load', resolve))
}"""


def test_a_foreign_page_can_neither_read_the_session_nor_end_it(
    page: Page, site: World, attacker: Page, other_origin: str, tolerate: Callable[[str], None]
) -> None:
    tolerate("status of 40[03]|frame-ancestors|X-Frame-Options|Refused to display|CORS|ERR_FAILED")
    assert attacker.evaluate(READ, f"{site.origin}/auth/session") is None
    for path in ("/auth/login?silent=1", "/auth/callback?code=x&state=y"):
        attacker.evaluate(FRAME, site.origin + path)
        attacker.wait_for_timeout(300)
        assert attacker.evaluate("heard") == []

    action = f"{site.origin}/auth/logout"
    for fields in ("", "<input name=local value=1>"):
        attacker.goto(other_origin)
        form = f"<form method=post action={action}>{fields}<button>Go</button></form>"
        attacker.set_content(form)
        attacker.get_by_role("button").click()
        expect(attacker).to_have_url(action)

    attacker.goto(other_origin)
    answer = attacker.goto(f"{site.origin}/auth/login?silent=1")
    assert answer is not None
    assert answer.status == 403
    assert revalidate(page) == "authenticated"
    assert site.provider.record.of(SignedOut) == []
    assert len(site.provider.record.of(SignedIn)) == 1
