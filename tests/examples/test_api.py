"""`python -m examples.api`: what it says one can try works."""

from __future__ import annotations

import re
import shlex

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started


def test_the_program_s_advice_works() -> None:
    with started("examples.api") as process, httpx.Client() as program:
        told = "".join(lines_of(process, 4))
        origin = found(r"open (http://\S+)/machines", told)
        [user] = re.findall(r"-u (\S+)", told)
        [token_url] = re.findall(r"(http://\S+/token)", told)
        form = {"grant_type": "client_credentials", "scope": "machines:write"}
        answer = program.post(token_url, data=form, auth=tuple(user.split(":")))
        headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        [url] = [word for word in shlex.split(told) if word.endswith("?name=one")]
        added = program.post(url, headers=headers)
        assert (added.status_code, added.json()) == (201, "one, added by program for program")
        refused = program.get(f"{origin}/machines", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "access_token.scope")
        with httpx.Client() as person:
            page = sign_in_sync(person, f"{origin}/machines", user="alice")
            assert page.json() == ["one, added by program for program"]
        assert program.get(f"{origin}/docs").status_code == 200


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]
