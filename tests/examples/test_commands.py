"""Each example by its one command: what it says one can try works."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import PATIENCE, lines_of, new_browser, started

PAGE = {"Accept": "text/html"}


@contextmanager
def example(name: str) -> Iterator[list[str]]:
    """The URLs that the example says one can open."""
    with started(f"examples.{name}") as process:
        [told] = lines_of(process, 1)
        yield re.findall(r"http://[^\s;,]+", told)


def test_the_vault_asks_for_a_second_factor_and_a_form_is_posted() -> None:
    with example("step_up") as [home, vault], new_browser(headers=PAGE) as browser:
        form = sign_in_sync(browser, home, user="alice")
        assert sign_in_sync(browser, vault, user="alice").json() == "Opened with otp"
        token = re.findall(r'name="csrf_token" value="([^"]*)"', form.text)
        data = {"csrf_token": token, "to": "bob"}
        assert browser.post(f"{home}transfer", data=data).json() == "Transferred to bob"


def test_people_of_both_providers_sign_in() -> None:
    people = {"Our staff": ("alice", "Alice"), "Partners": ("carol", "Carol")}
    with example("several_providers") as [home]:
        for label, (user, name) in people.items():
            with new_browser(headers=PAGE) as browser:
                page = browser.get(home, follow_redirects=True)
                links = re.findall(r'<a href="([^"]*)">([^<]*)</a>', page.text)
                [path] = [unescape(href) for href, text in links if text == label]
                url = str(page.url.join(path))
                assert sign_in_sync(browser, url, user=user).json() == f"{name} of {label}"


def test_one_browser_is_signed_in_at_two_tenants() -> None:
    with example("tenants") as [acme, globex], new_browser(headers=PAGE) as browser:
        assert sign_in_sync(browser, acme, user="alice").json() == "Alice at acme"
        assert sign_in_sync(browser, globex, user="carol").json() == "Carol at globex"
        assert browser.get(acme).json() == "Alice at acme"


def test_a_sign_out_at_the_provider_ends_the_session_by_a_frame() -> None:
    with example("front_channel") as [home, end_session], new_browser(headers=PAGE) as browser:
        assert sign_in_sync(browser, home, user="alice").json() == "Hello Alice"
        page = sign_in_sync(browser, end_session, user="alice")
        [frame] = re.findall(r'<iframe src="([^"]*)"', page.text)
        assert httpx.get(unescape(frame), timeout=PATIENCE).status_code == 200
        assert browser.get(home).status_code == 302


# `python -m examples.api`: what it says one can try works


def test_the_program_s_advice_works() -> None:
    with started("examples.api") as process, new_browser() as program:
        told = "".join(lines_of(process, 4))
        [origin] = re.findall(r"open (http://\S+)/machines", told)
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
        with new_browser() as person:
            page = sign_in_sync(person, f"{origin}/machines", user="alice")
            assert page.json() == ["one, added by program for program"]
        assert program.get(f"{origin}/docs").status_code == 200


# `python -m examples.dpop`: a stolen token opens nothing


def test_the_token_alone_opens_nothing() -> None:
    with started("examples.dpop") as process, new_browser() as browser:
        [told] = lines_of(process, 1)
        [url] = re.findall(r"http://\S+/", told)
        assert sign_in_sync(browser, url, user="alice").json() == {
            "with the key": 200,
            "with the token alone": 401,
        }


# `python -m examples.mcp`: the official MCP client signs in, calls a tool and steps up


def test_an_agent_calls_a_tool_and_steps_up_for_another_one() -> None:
    with started("examples.mcp") as process, new_browser() as browser:
        for told in ("['buy milk']", "['buy milk', 'bake bread']"):
            [asked] = lines_of(process, 1)
            match = re.fullmatch(r"The agent asks you to sign in: (http://\S+)\n", asked)
            assert match is not None, asked
            page = sign_in_sync(browser, match[1], user="alice")
            assert page.text == "The agent is signed in. You can close this page."
            assert lines_of(process, 1) == [f"The tool returned: {{'result': {told}}}\n"]
        assert process.wait(20) == 0
