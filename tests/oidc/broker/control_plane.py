"""A control-plane process that serves an access: its settings come as JSON on standard input."""

import asyncio
import json
import sys

from fastapi_oidc import OIDC, DownstreamAPI, OIDCSettings
from fastapi_oidc.broker import Access, Broker, Route


async def main() -> None:
    """Say "done", and serve until standard input ends."""
    told = json.loads(sys.stdin.readline())
    apis = [DownstreamAPI(grant="token_exchange", resource=told["resource"])]
    settings = OIDCSettings(**told["settings"])
    oidc = OIDC(settings, session_store=told["store"], downstream_apis=apis)
    routes = {name: Route(**route) for name, route in told["routes"].items()}
    broker = Broker(oidc, routes)
    async with broker.serve(Access.model_validate(told["access"]), told["path"]):
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    await broker.aclose()
    await oidc.aclose()


if __name__ == "__main__":
    asyncio.run(main())
