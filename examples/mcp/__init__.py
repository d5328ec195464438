"""Tools for agents: an MCP server in a FastAPI application, behind any OpenID Provider."""
