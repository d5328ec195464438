"""A provider's check_session_iframe that gives the answer a test tells it to give."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Frame, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.browser.element import eventually, member, opened
from tests.browser.site import Site, signed_in
from tests.oidc.real_op.serving import free_socket, serving

SILENT_LOGIN = "silent login"
CHECK_SESSION = """<!doctype html><title>Check</title><script>
window.received = []
window.answer = new URLSearchParams(location.search).get('answer')
addEventListener('message', ({ data, origin, source }) => {
  received.push([data, origin])
  if (window.answer) source.postMessage(window.answer, origin)
})
</script>"""


async def _check_session(request: Request) -> Response:
    return HTMLResponse(CHECK_SESSION)


async def _unframed(request: Request) -> Response:
    return HTMLResponse(CHECK_SESSION, headers={"X-Frame-Options": "DENY"})


@contextmanager
def watched(site: Site) -> Iterator[None]:
    """Lets `site` have a provider whose iframe says `unchanged`, asked every second."""
    app = Starlette(routes=[Route("/check", _check_session), Route("/unframed", _unframed)])
    with free_socket() as (listener, site.provider_origin), serving(app, listener):
        site.session = signed_in(session_state="state.1")
        answering(site, "unchanged")
        yield


def answering(site: Site, answer: str, *, path: str = "/check") -> None:
    """Frames that are loaded from now on begin with this answer; an empty one is silence."""
    site.monitoring = {
        "supported": True,
        "client_id": "app",
        "check_session_iframe": f"{site.provider_origin}{path}?answer={answer}",
        "poll_interval": 1,
        "redirect_origin": site.origin,
    }


def monitored(page: Page, site: Site, attributes: str = "") -> Frame:
    """The provider's frame in the page, once it was asked for the first time."""
    opened(page, site, attributes)
    frame = provider_frame(page, site)
    eventually(page, lambda: asked(frame) != [])
    return frame


def provider_frame(page: Page, site: Site) -> Frame:
    """The provider's frame in the page."""
    origin = site.provider_origin
    eventually(page, lambda: any(frame.url.startswith(origin) for frame in page.frames))
    return next(frame for frame in page.frames if frame.url.startswith(origin))


def is_believed(page: Page) -> bool:
    """Whether the last that counts of the provider's frame was `unchanged`."""
    return '"checks":0' in page.evaluate("Object.values(localStorage).join()")


def poll(page: Page) -> None:
    """Lets the page ask the provider's frame twice, unless it is busy with the first answer."""
    for _ in range(2):
        if member(page, "monitoring") == "watching":
            page.clock.run_for(5000)
        page.wait_for_timeout(300)


def asked(frame: Frame) -> list[str]:
    """What the provider's frame was asked so far."""
    questions: list[str] = frame.evaluate("(window.received ?? []).map(([text]) => text)")
    return questions


def say(frame: Frame, answer: str) -> None:
    """From now on the provider's frame gives this answer."""
    frame.evaluate("answer => { window.answer = answer }", answer)


def wait_for_checks(page: Page, site: Site, count: int) -> None:
    """Waits until so many silent logins are over."""
    eventually(page, lambda: site.asked(SILENT_LOGIN) == count)
    eventually(page, lambda: member(page, "monitoring") == "watching")
