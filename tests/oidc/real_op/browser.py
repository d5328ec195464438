"""A browser without a screen: it follows redirects and submits the provider's forms."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from fastapi_oidc.testing.headless import _first_form
from tests.oidc.real_op.relying_party import RelyingParty

ASKS_TO_GO_ON = ({"xsrf"}, {"state", "code"}, {"state", "error"})
"""Fields of the forms to submit: "do you want to sign out", and answers by form_post."""


@dataclass(frozen=True)
class Browser:
    """One cookie jar; 127.0.0.1 is one host to it, whatever the port."""

    http: httpx.Client

    def open(self, url: str) -> httpx.Response:
        """The page that `url` leads to."""
        return self.finish(self.http.build_request("GET", url))

    def finish(self, request: httpx.Request) -> httpx.Response:
        """The page that `request` leads to."""
        answer = self.http.send(request)
        while (following := self._following(answer)) is not None:
            answer = self.http.send(following)
        return answer

    def login(self, rp: RelyingParty, *, user: str = "alice", **query: str) -> httpx.Response:
        """Signs in; the page at the end."""
        return self.finish(self.login_request(rp, user=user, **query))

    def login_request(
        self, rp: RelyingParty, *, user: str = "alice", **query: str
    ) -> httpx.Request:
        """What begins a login that comes back to /me."""
        parameters = {"login_hint": user, "return_to": "/me", **query}
        return self.http.build_request("GET", f"{rp.origin}/auth/login", params=parameters)

    def callback_request(self, rp: RelyingParty, begun: httpx.Request) -> httpx.Request:
        """Goes on until the provider answers; the request to the callback is not sent yet."""
        request = begun
        while request.url.path != "/auth/callback":
            following = self._following(self.http.send(request))
            assert following is not None
            request = following
        assert str(request.url).startswith(rp.origin)
        return request

    def logout(self, rp: RelyingParty) -> httpx.Response:
        """Signs out at the app and at the provider; the page at the end."""
        url, headers = f"{rp.origin}/auth/logout", {"Origin": rp.origin}
        return self.finish(self.http.build_request("POST", url, headers=headers))

    def me(self, rp: RelyingParty) -> httpx.Response:
        """What the app says about its user, asked as a script would ask."""
        return self.http.get(f"{rp.origin}/me", headers={"Accept": "application/json"})

    def _following(self, answer: httpx.Response) -> httpx.Request | None:
        if answer.next_request is not None:
            return answer.next_request
        if "<form" not in answer.text:
            return None
        form = _first_form(answer)
        if not any(names <= form.fields.keys() for names in ASKS_TO_GO_ON):
            return None
        fields = form.fields | ({"logout": "yes"} if "xsrf" in form.fields else {})
        return self.http.build_request("POST", form.action, data=fields)


@contextmanager
def new_browser() -> Iterator[Browser]:
    """A browser that knows nothing yet."""
    with httpx.Client(timeout=20, headers={"Accept": "text/html"}) as http:
        yield Browser(http)
