"""`python -m examples.mcp`: the official MCP client signs in and calls the tool."""

from __future__ import annotations

import re

import httpx
import pytest

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started


@pytest.mark.parametrize(("user", "notes"), [("alice", "buy milk"), ("bob", "call Alice")])
def test_an_agent_calls_a_tool_for_the_person_who_signs_in(user: str, notes: str) -> None:
    with started("examples.mcp") as process, httpx.Client() as browser:
        [asked] = lines_of(process, 1)
        match = re.fullmatch(r"The agent asks you to sign in: (http://\S+)\n", asked)
        assert match is not None, asked
        page = sign_in_sync(browser, match[1], user=user)
        assert page.text == "The agent is signed in. You can close this page."
        [told] = lines_of(process, 1)
        assert told == f"The tool returned: {{'result': ['{notes}']}}\n"
        assert process.wait(20) == 0
