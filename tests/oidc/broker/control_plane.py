"""A control-plane process that serves accesses: its settings come as JSON on standard input."""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack

from fastapi_oidc import OIDC, Clock, DownstreamAPI, OIDCSettings
from fastapi_oidc.broker import Access, Broker, Route


async def main() -> None:
    """Say "done", and serve until standard input ends; each line of it sets the clock forward."""
    told, ahead = json.loads(sys.stdin.readline()), 0.0
    apis = [DownstreamAPI(grant="token_exchange", resource=told["resource"])]
    clock = Clock(read=lambda: time.time() + ahead)
    settings = OIDCSettings(**told["settings"])
    oidc = OIDC(settings, session_store=told["store"], downstream_apis=apis, clock=clock)
    routes = {name: Route(**route) for name, route in told["routes"].items()}
    broker = Broker(oidc, routes)
    async with AsyncExitStack() as stack:
        for path, access in told["accesses"].items():
            await stack.enter_async_context(broker.serve(Access.model_validate(access), path))
        print("done", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            ahead += float(line)
            print("done", flush=True)
    await oidc.aclose()


if __name__ == "__main__":
    asyncio.run(main())
