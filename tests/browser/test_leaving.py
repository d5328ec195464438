"""A page that `login()` set out to leave and that stayed: for a download, or somebody pressed Stop.

The page's clock stands still but for `run_for`, so that each answer comes when the test says.
"""

import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.element import events, expect_status, opened, revalidate
from tests.browser.site import Site, signed_in


def standing(page: Page, site: Site) -> Page:
    """A page that no answer leads away from; its element asks when it is told to."""
    page.clock.install()
    page.route("**/auth/login*", lambda route: route.fulfill(status=204))
    opened(page, site, 'redirect-on-revoked="/bye" revalidate-interval=0')
    page.clock.pause_at(time.time() + 3600)
    return page


@pytest.fixture
def stayed(page: Page, site: Site) -> Page:
    """A page whose `login()` led nowhere, a moment ago."""
    standing(page, site).locator("oidc-context").evaluate("element => element.login()")
    page.evaluate("""() => {
      window.left = []
      navigation.addEventListener('navigate', ({ destination }) => left.push(destination.url))
    }""")
    return page


def expect_to_stay(page: Page) -> None:
    """Nothing sends the page away, however long it waits."""
    page.clock.run_for(20_000)
    assert page.evaluate("left") == []


def test_an_element_goes_on_when_the_page_was_not_left(stayed: Page, site: Site) -> None:
    asked = site.asked("GET /auth/session")
    site.end_session()
    stayed.locator("oidc-context").evaluate("element => { element.revalidateInterval = 1 }")
    stayed.clock.run_for(9000)
    assert site.asked("GET /auth/session") == asked
    stayed.clock.run_for(6000)
    expect(stayed).to_have_url(site.origin + "/bye")


def test_the_end_that_is_heard_of_while_leaving_redirects_when_the_page_stays(
    stayed: Page, site: Site
) -> None:
    site.end_session()
    assert revalidate(stayed) == "revoked"
    stayed.clock.run_for(9000)
    assert stayed.evaluate("left") == []
    stayed.clock.run_for(6000)
    expect(stayed).to_have_url(site.origin + "/bye")


@pytest.mark.parametrize("kept", [False, True], ids=["sent", "prevented"])
def test_a_form_that_is_being_sent_is_not_overtaken(page: Page, site: Site, kept: bool) -> None:
    """It may be the one that signs out: its own answer says where the page goes."""
    standing(page, site)
    page.evaluate(
        """kept => {
          const form = document.createElement('form')
          form.action = '/auth/login'
          if (kept) form.addEventListener('submit', event => event.preventDefault())
          document.body.append(form)
          form.requestSubmit()
        }""",
        kept,
    )
    site.end_session()
    page.locator("oidc-context").evaluate("element => void element.revalidate()")
    if not kept:
        expect_status(page, "revoked")
        page.clock.run_for(9000)
        assert site.asked("GET /bye") == 0
        page.clock.run_for(6000)
    expect(page).to_have_url(site.origin + "/bye")


def test_a_listener_that_keeps_the_page_is_heard_while_leaving(stayed: Page, site: Site) -> None:
    stayed.evaluate("addEventListener('oidc-revoked', event => event.preventDefault())")
    site.end_session()
    assert revalidate(stayed) == "revoked"
    expect_to_stay(stayed)
    assert len(events(stayed, "oidc-revoked")) == 1


@pytest.mark.parametrize(
    "asks",
    [
        "document.querySelector('oidc-context').revalidate()",
        "void dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))",
    ],
)
def test_who_is_signed_in_again_stays_on_the_page(stayed: Page, site: Site, asks: str) -> None:
    site.end_session()
    assert revalidate(stayed) == "revoked"
    site.session = signed_in()
    stayed.evaluate(asks)
    expect_status(stayed, "authenticated")
    expect_to_stay(stayed)
