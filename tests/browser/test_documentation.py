"""docs/browser.md names what the code has, no more and no less."""

import re
from pathlib import Path

import fastapi_oidc.web.pages as module
from tests.browser.element import EVENTS
from tests.browser.test_element import PROPERTIES

PAGE = (Path(__file__).parents[2] / "docs/browser.md").read_text()
CODE = (Path(module.__file__).parent / "browser" / "oidc-context.js").read_text()


def first_cells(title: str) -> list[str]:
    """The first column of the table whose first heading is `title`."""
    [body] = re.findall(rf"^\| {title} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [row.split("|")[1].strip().strip("`") for row in body.splitlines()]


def union(name: str) -> list[str]:
    """The members of a union of strings that the code defines."""
    [members] = re.findall(rf"@typedef {{([^}}]*)}} {name}", CODE)
    return [member.strip(" '") for member in members.split("|")]


def public(pattern: str) -> set[str]:
    """Public members of the element that are written like `pattern`."""
    element = CODE.partition("export class OIDCContext")[2]
    return set(re.findall(rf"^  (?:async )?{pattern}", element, re.MULTILINE))


def test_every_attribute() -> None:
    [observed] = re.findall(r"observedAttributes = \[([^\]]*)\]", CODE)
    assert first_cells("Attribute") == re.findall(r"'([a-z-]+)'", observed)


def test_every_property() -> None:
    documented = set(first_cells("Property")) | set(PROPERTIES)
    assert documented == public(r"get (\w+)\(")
    of_attributes = {
        re.sub("-(.)", lambda found: found[1].upper(), n) for n in first_cells("Attribute")
    }
    assert set(PROPERTIES) <= of_attributes


def test_every_method() -> None:
    methods = {cell.partition("(")[0] for cell in first_cells("Method")}
    inherited = {"connectedCallback", "disconnectedCallback", "attributeChangedCallback"}
    assert methods == public(r"([a-z]\w*)\([^)]*\) {$") - inherited


def test_every_status() -> None:
    assert first_cells("`status`") == union("Status")
    assert first_cells("`monitoring`") == union("Monitoring")


def test_every_event_and_reason() -> None:
    assert first_cells("Event") == EVENTS
    assert set(re.findall(r"'(oidc-[a-z]+)'", CODE)) - {"oidc-context", "oidc-silent"} == set(
        EVENTS
    )
    reasons = re.findall(r"#(?:end|revoke)\((.*)\)", CODE)
    assert set(first_cells("`reason`")) == set(re.findall(r"'(\w+)'", " ".join(reasons)))
