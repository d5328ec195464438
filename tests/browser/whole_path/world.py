"""A provider, an app and a browser: everything between login and logout is real."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from urllib.parse import quote, urlencode

from playwright.sync_api import Page

from fastapi_oidc import OIDC, Clock
from fastapi_oidc.testing import DevProvider, DevUser
from tests.browser.element import expect_status
from tests.browser.whole_path.application import made
from tests.oidc.real_op.serving import free_socket, serving
from tests.oidc.world import client_at, settings_of

USERS = [DevUser("alice", "Alice"), DevUser("bob", "Bob")]


@dataclass
class Time:
    """The time of app and provider, moved ahead when a test says so."""

    ahead: float = 0

    def read(self) -> float:
        return time.time() + self.ahead


@dataclass
class World:
    """What a test sees of app and provider."""

    provider: DevProvider
    origin: str
    time: Time

    def open(self, page: Page, attributes: str = "", *, status: str) -> None:
        """The app's page, with an element of these attributes."""
        page.goto(f"{self.origin}/?attributes={quote(attributes)}")
        expect_status(page, status)

    def sign_in(self, page: Page, attributes: str = "", *, user: str = "Alice") -> None:
        """From the app's login route over the provider's page back to the app."""
        target = urlencode({"return_to": f"/?attributes={quote(attributes)}"})
        page.goto(f"{self.origin}/auth/login?{target}")
        page.get_by_role("button", name=user).click()
        expect_status(page, "authenticated")

    def end_everywhere(self, sub: str) -> None:
        """The provider ends the user's sessions and tells the app by back-channel logout."""
        ending = Thread(target=lambda: asyncio.run(self.provider.log_out(sub)))
        ending.start()
        ending.join()


@contextmanager
def running_world() -> Iterator[World]:
    """App and provider on sockets of their own."""
    moved = Time()
    clock = Clock(read=moved.read)
    with free_socket() as (listener, origin):
        client = client_at(routes=f"{origin}/auth")
        provider = DevProvider(users=USERS, clients=[client], clock=clock)
        with provider.serve() as issuer:
            settings = settings_of(client, provider, base_url=origin, allow_insecure_http=True)
            oidc = OIDC(settings, back_channel_logout_store="memory", clock=clock)
            world = World(provider, origin, moved)
            app = made(oidc, provider_origin=issuer)
            with serving(app, listener):
                yield world
