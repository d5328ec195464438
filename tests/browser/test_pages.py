"""The library's own pages in a browser: accessible, styled as their policy allows, light, dark."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Literal

import pytest
from playwright.sync_api import Browser, ViewportSize
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fastapi_oidc import Page
from fastapi_oidc.web.pages import chooser_page, signed_out_page, silent_page
from tests.chromium import close_context, violations
from tests.oidc.real_op.serving import free_socket, serving

REFUSED = Page(
    kind="refused",
    status=HTTPStatus.BAD_GATEWAY,
    heading="The sign-in service cannot be reached",
    text="Try again shortly.",
    action="Try again",
    href="/refused",
    code="provider.unreachable",
)
STEP_UP = Page(
    kind="step_up",
    status=HTTPStatus.UNAUTHORIZED,
    heading="Confirm that it is you",
    text="Sign in again in a new tab. Then come back to this page and reload it.",
    action="Sign in again",
    href="/auth/login",
    code="session.step_up_required",
)
RESPONSES = {
    "refused": REFUSED.response(),
    "step-up": STEP_UP.response(),
    "choose": chooser_page((("Our staff", "/staff"), ("Partners", "/partners"))).response(),
    "signed-out": signed_out_page("/").response(),
    "silent": silent_page("provider.unreachable"),
}
BACKGROUNDS = {"light": "rgb(244, 245, 247)", "dark": "rgb(20, 23, 26)"}
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


async def answer(request: Request) -> Response:
    return RESPONSES[request.path_params["page"]]


@pytest.fixture
def site() -> Iterator[str]:
    """The origin of a site with the pages."""
    app = Starlette(routes=[Route("/{page}", answer)])
    with free_socket() as (listener, origin), serving(app, listener):
        yield origin


@pytest.mark.parametrize(("scheme", "background"), BACKGROUNDS.items())
def test_every_page_is_accessible_and_fits_a_phone_in_the_colours_of_the_system(
    chromium: Browser, site: str, scheme: Literal["light", "dark"], background: str
) -> None:
    viewport: ViewportSize = {"width": 360, "height": 640}
    page = chromium.new_context(color_scheme=scheme, viewport=viewport).new_page()
    for name, response in RESPONSES.items():
        assert len(response.body) < 4096, name
        page.goto(f"{site}/{name}")
        assert page.evaluate(BACKGROUND) == background, name
        assert violations(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    close_context(page.context)


def test_a_code_cannot_break_out_of_its_attribute() -> None:
    page = bytes(silent_page('"><script>alert(1)</script>').body).decode()
    assert page.count("<script>") == 1
    assert 'data-code="&quot;&gt;&lt;script' in page
