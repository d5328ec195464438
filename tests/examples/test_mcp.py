"""`python -m examples.mcp`: the official MCP client signs in, calls a tool and steps up."""

from __future__ import annotations

import re

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started


def test_an_agent_calls_a_tool_and_steps_up_for_another_one() -> None:
    with started("examples.mcp") as process, httpx.Client() as browser:
        for told in ("['buy milk']", "['buy milk', 'bake bread']"):
            [asked] = lines_of(process, 1)
            match = re.fullmatch(r"The agent asks you to sign in: (http://\S+)\n", asked)
            assert match is not None, asked
            page = sign_in_sync(browser, match[1], user="alice")
            assert page.text == "The agent is signed in. You can close this page."
            assert lines_of(process, 1) == [f"The tool returned: {{'result': {told}}}\n"]
        assert process.wait(20) == 0
