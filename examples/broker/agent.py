"""A coding agent's tool: a program that nobody trusts, with a socket and no secrets."""

import asyncio
import sys
from subprocess import PIPE
from tempfile import TemporaryDirectory

from fastapi_oidc.broker import Access, Broker

TOOL = """
import http.client, socket, sys

class Guest(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])

guest = Guest("calendar.internal")
guest.request("GET", "/events")
answer = guest.getresponse()
print(answer.status, answer.read().decode())
"""


async def run_tool(broker: Broker, access: Access) -> str:
    """What the tool prints. In a microVM the socket is the path of a vsock port."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/calendar"
        async with broker.serve(access, path):
            tool = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", TOOL, path, stdout=PIPE, env={}
            )
            printed, _ = await tool.communicate()
    return printed.decode()
