"""The application: pages for people, and tools for agents that act for them."""

from typing import Any

from fastapi import FastAPI
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request

from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSettings

NOTES = {"alice": ["buy milk"], "bob": ["call Alice"]}
SCOPES = {"notes:read": "Read your notes", "notes:write": "Change your notes"}


def create_app(settings: OIDCSettings, *, stateless: bool = True, **options: Any) -> FastAPI:
    """The application at `settings.base_url`, with its MCP server at /mcp."""
    oidc = OIDC(settings, **options)
    api = oidc.api(audience=f"{settings.base_url}/mcp", scopes=SCOPES)
    server = MCPServer("notes")

    @server.tool()
    async def my_notes(context: Context[None, Request]) -> list[str]:
        """The notes of the person for whom the agent acts."""
        request = context.request_context.request
        assert request is not None
        token = await api.access_token(request)
        return NOTES.get(token.sub, [])

    @server.tool()
    async def add_note(text: str, context: Context[None, Request]) -> list[str]:
        """Add a note. The agent needs the scope notes:write for this tool."""
        request = context.request_context.request
        assert request is not None
        token = await api.access_token(request)
        NOTES.setdefault(token.sub, []).append(text)
        return NOTES[token.sub]

    tools = server.streamable_http_app(streamable_http_path="/mcp", stateless_http=stateless)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    by_tool = {"my_notes": (), "add_note": "notes:write"}
    api.mount(app, "/mcp", tools, "notes:read", tools=by_tool)
    return app
