"""The application: pages for people, and a tool for agents that act for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.routing import Route

from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSettings

NOTES = {"alice": ["buy milk"], "bob": ["call Alice"]}


def create_app(settings: OIDCSettings) -> FastAPI:
    """The application at `settings.base_url`, with its MCP server at /mcp."""
    oidc = OIDC(settings)
    api = oidc.api(
        audience=f"{settings.origin}/mcp",
        scopes={"notes:read": "Read your notes"},
    )
    server = MCPServer("notes")

    @server.tool()
    async def my_notes(context: Context[None, Request]) -> list[str]:
        """The notes of the person for whom the agent acts."""
        request = context.request_context.request
        assert request is not None
        token = await api.access_token(request)
        return NOTES.get(token.sub, [])

    tools = server.streamable_http_app(streamable_http_path="/mcp", stateless_http=True)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with server.session_manager.run():
            yield

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.include_router(api.router)
    app.router.routes.append(Route("/mcp", api.protected(tools, "notes:read")))
    return app
