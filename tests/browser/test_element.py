"""The element as a citizen of the page: attributes, clean-up, double loading, several at once."""

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.element import events, expect_status, member, opened, revalidate
from tests.browser.site import NOBODY, Site

PROPERTIES = {
    "sessionUrl": ("session-url", "/other/session"),
    "configUrl": ("config-url", "/other/config"),
    "loginUrl": ("login-url", "/other/login"),
    "logoutUrl": ("logout-url", "/other/logout"),
    "heartbeatUrl": ("heartbeat-url", "/heartbeat"),
    "redirectOnIdle": ("redirect-on-idle", "logout"),
    "redirectOnExpired": ("redirect-on-expired", "login"),
    "redirectOnRevoked": ("redirect-on-revoked", "reload"),
    "idleTimeout": ("idle-timeout", 900),
    "revalidateInterval": ("revalidate-interval", 5),
}
SET = "(element, [name, value]) => { element[name] = value; return [element[name]] }"


def test_every_attribute_is_a_property_and_null_takes_it_away(page: Page, site: Site) -> None:
    opened(page, site)
    element = page.locator("oidc-context")
    observed = element.evaluate("element => element.constructor.observedAttributes")
    assert sorted(observed) == sorted(attribute for attribute, _ in PROPERTIES.values())
    for name, (attribute, value) in PROPERTIES.items():
        [after] = element.evaluate(SET, [name, value])
        assert element.get_attribute(attribute) == str(value)
        is_url = name.endswith("Url") and name != "heartbeatUrl"
        assert after == (site.origin + str(value) if is_url else value)
    assert element.evaluate(SET, ["loginUrl", None]) == [site.origin + "/auth/login"]
    assert element.evaluate(SET, ["idleTimeout", None]) == [0]
    assert element.get_attribute("login-url") is None


def test_seconds_that_are_none_are_told_and_absent_and_content_inside_is_shown(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    tolerate("oidc-context: ")
    site.body = (
        '<oidc-context idle-timeout="soon" revalidate-interval="-1" login_url="/in" data-x="1">'
        "<b>inside</b></oidc-context>"
    )
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    opened(page, site)
    assert told == [
        'oidc-context: idle-timeout="soon" is no number of seconds',
        'oidc-context: revalidate-interval="-1" is no number of seconds',
        "oidc-context: the attribute login_url has no effect, login-url has",
    ]
    assert member(page, "idleTimeout") == 0
    assert member(page, "revalidateInterval") == 60
    assert page.locator("b").is_visible()


def test_a_new_session_url_begins_anew(page: Page, site: Site) -> None:
    opened(page, site)
    site.session = NOBODY
    page.locator("oidc-context").evaluate("element => { element.sessionUrl = '/auth/session?2' }")
    expect_status(page, "anonymous")
    assert events(page, "oidc-revoked") == []


def test_a_removed_element_does_nothing_more(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site, 'revalidate-interval="5" idle-timeout="60" heartbeat-url="/heartbeat"')
    revalidate(page)  # no heartbeat is under way
    page.evaluate("window.element = document.querySelector('oidc-context'); element.remove()")
    asked = site.requests.copy()
    page.clock.fast_forward(120_000)
    page.clock.run_for(60_000)
    page.evaluate("dispatchEvent(new Event('focus'))")
    page.keyboard.press("a")
    page.wait_for_timeout(300)
    assert site.requests == asked


def test_a_removed_element_ignores_the_answer_it_waited_for(page: Page, site: Site) -> None:
    opened(page, site)
    site.end_session()
    page.evaluate(
        """async () => {
          window.element = document.querySelector('oidc-context')
          const asked = element.revalidate()
          element.remove()
          await asked
        }"""
    )
    assert page.evaluate("element.status") == "authenticated"
    assert events(page, "oidc-revoked") == []


def test_an_element_outside_the_page_asks_only_when_told_to(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site, "revalidate-interval=0")
    status = page.evaluate("document.createElement('oidc-context').revalidate()")
    assert status == "authenticated"
    asked = site.requests.copy()
    page.clock.run_for(200_000)
    page.wait_for_timeout(300)
    assert site.requests == asked


def test_a_moved_element_goes_on(page: Page, site: Site) -> None:
    opened(page, site)
    page.evaluate("document.body.append(document.querySelector('oidc-context'))")
    expect_status(page, "authenticated")
    site.end_session()
    page.locator("oidc-context").evaluate("element => element.revalidate()")
    expect_status(page, "revoked")


def test_a_second_copy_of_the_script_is_harmless_and_a_subclass_has_a_name_of_its_own(
    page: Page, site: Site
) -> None:
    opened(page, site)
    assert page.evaluate(
        """async () => {
          const again = await import('/auth/oidc-context.js?copy=2')
          again.OIDCContext.define()
          return customElements.get('oidc-context') !== again.OIDCContext
        }"""
    )
    assert member(page, "isAuthenticated") is True
    assert page.evaluate(
        """async () => {
          const { OIDCContext } = await import('/auth/oidc-context.js')
          class AppSession extends OIDCContext {}
          AppSession.define('app-session')
          const element = document.createElement('app-session')
          document.body.append(element)
          return await element.revalidate()
        }"""
    ) == ("authenticated")


def test_elements_of_two_providers_do_not_interfere(page: Page, site: Site) -> None:
    site.body = (
        '<oidc-context id="one" idle-timeout="600" redirect-on-idle="logout"></oidc-context>'
        '<oidc-context id="two" session-url="/auth/session?two"></oidc-context>'
    )
    page.goto(site.origin)
    one, two = page.locator("#one"), page.locator("#two")
    assert one.evaluate("element => element.revalidate()") == "authenticated"
    assert two.evaluate("element => element.revalidate()") == "authenticated"
    keys = page.evaluate("Object.keys(localStorage)")
    assert keys == [f"oidc-context:idle:{site.origin}/auth/session"]
    site.end_session()
    assert one.evaluate("element => element.revalidate()") == "revoked"
    page.wait_for_timeout(500)
    assert two.evaluate("element => element.status") == "authenticated"
