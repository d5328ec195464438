"""A site that gives `<oidc-context>` every answer a test asks for, and the provider it watches."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fastapi_oidc.web.pages import serve_script, silent_page

EIGHT_HOURS = 8 * 3600
NOBODY: dict[str, object] = {"is_authenticated": False}


def signed_in(**members: object) -> dict[str, object]:
    """The public session of Alice, eight hours long unless `members` say otherwise."""
    session = {
        "is_authenticated": True,
        "sub": "alice",
        "identity": {"name": "Alice"},
        "expires_at": int(time.time()) + EIGHT_HOURS,
        "csrf_token": "token-1",
    }
    return session | members


@dataclass
class Gate:
    """Holds one answer: `held` once it waits, until `released`."""

    held: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        """Of the one who answers."""
        self.held.set()
        assert self.released.wait(60), "nobody let the answer go"


@dataclass
class Site:
    """What each route answers, and what it was asked."""

    session: dict[str, object] = field(default_factory=signed_in)
    session_status: int = 200
    heartbeat_status: int = 204
    logout_status: int = 303
    monitoring: dict[str, object] = field(default_factory=lambda: {"supported": False})
    silent: str | None = ""
    session_after_check: dict[str, object] | None = None
    session_after_login: dict[str, object] | None = None
    attributes: str = ""
    idle_timeout: int = 0
    body: str = ""
    provider_origin: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    forms: list[dict[str, list[str]]] = field(default_factory=list)
    csrf_tokens: list[str | None] = field(default_factory=list)
    origin: str = ""
    gates: dict[str, Gate] = field(default_factory=dict)

    @property
    def app(self) -> Starlette:
        """The site; a GET of any path that is not listed shows the page."""
        return Starlette(
            routes=[
                Route("/auth/oidc-context.js", serve_script),
                Route("/auth/session", self._session),
                Route("/auth/session-management", self._session_management),
                Route("/auth/login", self._login),
                Route("/auth/logout", self._logout, methods=["POST"]),
                Route("/heartbeat", self._heartbeat, methods=["POST"]),
                Route("/hold", self._hold),
                Route("/{path:path}", self._page),
            ]
        )

    def asked(self, request: str) -> int:
        """How often a request like `GET /auth/session` came."""
        return self.requests[request]

    def end_session(self) -> None:
        """From now on the server knows no session."""
        self.session = NOBODY

    def hold(self, request: str) -> Gate:
        """Lets the next answer to such a request wait; it says what was right when that came."""
        gate = self.gates[request] = Gate()
        return gate

    def _count(self, request: Request) -> None:
        self.requests[_named(request)] += 1

    async def _gone_through(self, request: Request) -> None:
        gate = self.gates.pop(_named(request), None)
        if gate is not None:
            await run_in_threadpool(gate.wait)

    async def _page(self, request: Request) -> Response:
        self._count(request)
        element = f"<oidc-context {self.attributes}></oidc-context>"
        policy = (
            "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none';"
            f" frame-src 'self' {self.provider_origin}; form-action 'self' {self.provider_origin}"
        )
        html = (
            '<!doctype html><html lang="en"><title>Page</title><link rel="icon" href="data:,">'
            '<script type="module" src="/auth/oidc-context.js"></script>'
            f"{self.body or element}<p>Content</p></html>"
        )
        return HTMLResponse(html, headers={"Content-Security-Policy": policy + "; img-src data:"})

    async def _session(self, request: Request) -> Response:
        self._count(request)
        if "active" in request.query_params:
            self.requests["active"] += 1
            if self.idle_timeout:
                self.session |= {"idle_expires_at": int(time.time()) + self.idle_timeout}
        answer = JSONResponse(self.session, self.session_status, {"Cache-Control": "no-store"})
        await self._gone_through(request)
        return answer

    async def _session_management(self, request: Request) -> Response:
        self._count(request)
        return JSONResponse(self.monitoring)

    async def _login(self, request: Request) -> Response:
        self._count(request)
        if "silent" not in request.query_params:
            self.session = self.session_after_login or self.session
            return RedirectResponse("/signed-in-again", 303)
        self.requests["silent login"] += 1
        if self.silent is None:
            return Response("the provider shows a page of its own")
        if self.session_after_check is not None:
            self.session = self.session_after_check
        answer = silent_page(self.silent)
        await self._gone_through(request)
        return answer

    async def _logout(self, request: Request) -> Response:
        self._count(request)
        form = parse_qs((await request.body()).decode())
        self.forms.append(form)
        await self._gone_through(request)
        if self.logout_status != 303:
            return Response("out of order", self.logout_status)
        token = request.headers.get("X-CSRF-Token")
        if self.session != NOBODY and token not in (None, self.session.get("csrf_token")):
            return Response("another session", 403)
        self.end_session()
        return RedirectResponse(form.get("return_to", ["/signed-out"])[0], 303)

    async def _heartbeat(self, request: Request) -> Response:
        self._count(request)
        self.csrf_tokens.append(request.headers.get("X-CSRF-Token"))
        answer = Response(status_code=self.heartbeat_status)
        await self._gone_through(request)
        return answer

    async def _hold(self, request: Request) -> Response:
        await self._gone_through(request)
        return Response(status_code=204)


def _named(request: Request) -> str:
    return f"{request.method} {request.url.path}"
