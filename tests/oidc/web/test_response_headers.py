"""`response_headers.md` names every header of every answer, and the routes answer so."""

import re
from pathlib import Path
from typing import Final

import httpx
import pytest
from starlette.routing import Route

from tests.oidc.web.asking import FORM_POST
from tests.oidc.web.every_answer import ANSWERS
from tests.oidc.world import make_world

TABLE: Final = Path(__file__).with_name("response_headers.md").read_text()
COLUMNS: Final = (
    "cache-control",
    "vary",
    "referrer-policy",
    "x-content-type-options",
    "x-frame-options",
    "content-security-policy",
)
OF_THE_BODY: Final = {"content-length", "content-type"}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| \n").split("|")]


def documented() -> dict[str, list[str]]:
    """The cells of each row of the table by the answer that the row is about."""
    rows = [cells(line) for line in TABLE.splitlines() if line.startswith("| `")]
    return {f"{row[0]} {row[1]}": row[2:] for row in rows}


def policies() -> dict[str, str]:
    """The policies below the table, with the hashes left out as there."""
    return dict(re.findall(r"^- ([a-z ]+): `([^`]+)`", TABLE, re.MULTILINE))


def as_documented(response: httpx.Response) -> list[str]:
    """The cells that describe `response`."""
    headers = response.headers
    policy = re.sub(r"'sha256-[^']+'", "'sha256-…'", headers.get("content-security-policy", "-"))
    named = {value: name for name, value in policies().items()}
    values = {name: headers.get(name, "-") for name in COLUMNS} | {
        "content-security-policy": named.get(policy, policy)
    }
    others = sorted(set(headers) - set(COLUMNS) - OF_THE_BODY)
    return [*values.values(), ", ".join(others) or "-"]


def test_the_table_names_the_answers_that_are_tested_here() -> None:
    assert list(documented()) == list(ANSWERS)


def test_the_table_has_a_row_for_every_route() -> None:
    rows = "\n".join(documented())
    routes = make_world(settings=FORM_POST | {"front_channel_logout": True}).oidc.router.routes
    doors = {
        f"`{method} {route.path}`"
        for route in routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {f"`{door}`" for door in re.findall(r"`([A-Z]+ /[^`?]+)", rows)}
    assert len(doors) == 11
    assert doors - described == set()


@pytest.mark.parametrize("answer", list(ANSWERS))
async def test_an_answer_has_exactly_the_headers_of_its_row(answer: str) -> None:
    responses = [await ask() for ask in ANSWERS[answer]]
    statuses = {str(response.status_code) for response in responses}
    assert statuses == set(re.findall(r"\b\d{3}\b", answer))
    for response in responses:
        assert as_documented(response) == documented()[answer]
