"""`python -m examples.mcp`: the official MCP client signs in and calls the tool."""

from __future__ import annotations

import re

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started


def test_an_agent_calls_a_tool_for_the_person_who_signs_in() -> None:
    with started("examples.mcp") as process, httpx.Client() as browser:
        [asked] = lines_of(process, 1)
        match = re.fullmatch(r"The agent asks you to sign in: (http://\S+)\n", asked)
        assert match is not None, asked
        page = sign_in_sync(browser, match[1], user="alice")
        assert page.text == "The agent is signed in. You can close this page."
        [told] = lines_of(process, 1)
        assert told == "The tool returned: {'result': ['buy milk']}\n"
        assert process.wait(20) == 0
