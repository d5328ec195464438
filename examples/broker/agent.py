"""A coding agent's tool calls: each is a request of the guest, and none has a token."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx

TOOLS = {"list_events": ("GET", "/events"), "add_event": ("POST", "/events")}
"""The tools that the model may call, and the requests that they are."""


async def call_tool(guest: httpx.AsyncClient, name: str, argument: Any = None) -> str:
    """The result of a tool, or the sentence with which the broker refuses it."""
    if name not in TOOLS:
        return f"there is no tool {name}, but {', '.join(TOOLS)}"
    method, path = TOOLS[name]
    answer = await guest.request(method, path, json=argument)
    return answer.text if answer.is_success else f"refused: {answer.text.strip()}"


async def main(socket: str = "") -> None:
    """Read tool calls from standard input, one JSON object in each line, and print results.

    `socket` is that of the access; a program within a guest has `http_proxy` in its environment.
    """
    transport = httpx.AsyncHTTPTransport(uds=socket) if socket else None
    async with httpx.AsyncClient(
        transport=transport, base_url="http://calendar.internal", timeout=600
    ) as guest:
        while line := await asyncio.to_thread(sys.stdin.readline):
            call = json.loads(line)
            print(await call_tool(guest, call["tool"], call.get("argument")), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
