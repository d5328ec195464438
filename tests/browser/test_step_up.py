"""A form that is posted too late, from the refusal to the second posting, in a browser."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from examples import local
from examples.step_up import RECENT_SECONDS, create_app
from fastapi_oidc import Clock
from fastapi_oidc.testing import DevProvider, DevUser
from tests.oidc.real_op.serving import free_socket, serving

ALICE = re.compile("Alice")
TYPED = 'bob & "friends" <all>'


@dataclass
class Served:
    """The example at `origin`, with a clock that the test moves ahead."""

    origin: str = ""
    ahead: float = 0.0

    def read(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def site() -> Iterator[Served]:
    served = Served()
    clock = Clock(read=served.read)
    with ExitStack() as stack:
        listener, served.origin = stack.enter_context(free_socket())
        provider = DevProvider(
            users=[DevUser("alice", "Alice")],
            clients=[local.client(f"{served.origin}/auth")],
            acr_values=["password", "otp"],
            clock=clock,
        )
        issuer = stack.enter_context(provider.serve())
        app = create_app(local.settings(issuer, served.origin), clock=clock)
        stack.enter_context(serving(app, listener))
        yield served


def signed_in(page: Page) -> None:
    page.get_by_role("button", name=ALICE).click()


def test_a_form_waits_while_its_user_signs_in_again(
    site: Served, context: BrowserContext, tolerated: list[str]
) -> None:
    tolerated += ["401", "404"]  # the refusal, and an icon that the example has not
    page = context.new_page()
    page.goto(site.origin)
    signed_in(page)
    site.ahead = 2 * RECENT_SECONDS
    page.get_by_label("To").fill(TYPED)
    page.get_by_role("button", name="Transfer").click()
    expect(page.get_by_role("heading")).to_have_text("Confirm that it is you")
    with context.expect_page() as opened:
        page.get_by_role("link", name="Sign in again").click()
    signed_in(opened.value)
    expect(opened.value.get_by_role("button", name="Transfer")).to_be_visible()
    page.get_by_role("button", name="Send the form again").click()
    expect(page.locator("body")).to_contain_text("Transferred to bob")
    assert page.evaluate("document.body.innerText").count("<all>") == 1
