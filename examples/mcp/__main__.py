"""`python -m examples.mcp`: a provider, the application, and an agent that calls its tool."""

import asyncio
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from mcp.shared.auth import AuthorizationCodeResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from examples.local import listening, settings
from examples.mcp.agent import CLIENT_ID, SignIn, connected
from examples.mcp.application import SCOPES, create_app
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser


def provider(origin: str, secret: str) -> DevProvider:
    """A provider at which the application and the agent are registered."""
    return DevProvider(
        users=[DevUser("alice", "Alice"), DevUser("bob", "Bob")],
        clients=[
            DevClient(
                client_id="app", client_secret=secret, redirect_uris=[f"{origin}/auth/callback"]
            ),
            DevClient(
                client_id=CLIENT_ID,
                any_local_uri=True,
                access_token_format="jwt",  # noqa: S106 - a format
            ),
        ],
        resources=[DevResource(f"{origin}/mcp", list(SCOPES))],
    )


@contextmanager
def served(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serves `app` at `listener` within the block."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def in_a_browser(listener: socket.socket) -> SignIn:
    """Signs in with the browser that opens the address; the redirect comes to `listener`."""

    async def sign_in(url: str) -> AuthorizationCodeResult:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[AuthorizationCodeResult] = loop.create_future()

        async def callback(request: Request) -> PlainTextResponse:
            result = AuthorizationCodeResult.model_validate(dict(request.query_params))
            loop.call_soon_threadsafe(arrived.set_result, result)
            return PlainTextResponse("The agent is signed in. You can close this page.")

        # A server closes its socket: the copy of it.
        with served(Starlette(routes=[Route("/callback", callback)]), listener.dup()):
            print(f"The agent asks you to sign in: {url}", flush=True)
            return await arrived

    return sign_in


async def act(url: str, callback: socket.socket) -> None:
    """Call one tool, and then another one that needs more: the agent asks for that scope too."""
    redirect_uri = f"http://127.0.0.1:{callback.getsockname()[1]}/callback"
    async with connected(url, redirect_uri=redirect_uri, sign_in=in_a_browser(callback)) as agent:
        read = await agent.call_tool("my_notes", {})
        print(f"The tool returned: {read.structured_content}", flush=True)
        added = await agent.call_tool("add_note", {"text": "bake bread"})
        print(f"The tool returned: {added.structured_content}", flush=True)


def main() -> None:
    """Serve until the agent has called both tools."""
    (listener, origin), secret = listening(), secrets.token_urlsafe(32)
    callback = socket.create_server(("127.0.0.1", 0))
    with (
        provider(origin, secret).serve() as issuer,
        served(create_app(settings(issuer, origin, client_secret=secret)), listener),
    ):
        asyncio.run(act(f"{origin}/mcp", callback))


if __name__ == "__main__":
    main()
