"""Rights: what roles mean, for all machines or some, and what is hidden from the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples.console import demo
from examples.console.identity import RIGHTS, User, roles_in
from examples.console.settings import ConsoleSettings, RoleSettings, SettingsError
from fastapi_oidc.testing import DevUser
from tests.console.browser import Browser
from tests.console.running import RunningConsole, hosting_console, signed_in

SOME = DevUser("sam", "Sam Some", "sam@example.com", {"roles": ["operator:demo", "viewer:web-*"]})
NONE = DevUser("nora", "Nora None", "nora@example.com", {"roles": ["staff"]})


@pytest.mark.parametrize(
    ("role", "machine", "rights"),
    [
        ("admin", "web", 3),
        ("admin", "", 3),
        ("operator", "web", 2),
        ("viewer", "web", 1),
        ("operator:web-*", "web-1", 2),
        ("operator:web-*", "db", 0),
        ("operator:web-*", "", 0),
        ("admin:web", "web-1", 0),
        ("viewer:", "web", 1),
        ("Admin", "web", 0),
        ("staff", "web", 0),
    ],
)
def test_a_role_is_for_all_machines_or_those_of_its_pattern(
    role: str, machine: str, rights: int
) -> None:
    user = User(sub="a", name="A", roles=(role,))
    assert [user.may(right, machine) for right in RIGHTS] == [n < rights for n in range(3)]


@pytest.mark.parametrize(
    ("claim", "given", "claims", "roles"),
    [
        ("", "", {"roles": ["admin", "viewer:web-*"]}, ["admin", "viewer:web-*"]),
        ("", "", {"roles": "operator"}, ["operator"]),
        ("", "", {"roles": {"admin": True}}, []),
        (
            "realm_access.roles",
            "",
            {"realm_access": {"roles": ["admin"]}, "roles": ["no"]},
            ["admin"],
        ),
        ("realm_access.roles", "", {"realm_access": ["roles"]}, []),
        ("https://acme.example/roles", "", {"https://acme.example/roles": ["admin"]}, ["admin"]),
        ("groups", "ops=admin", {"groups": ["admin", "ops"]}, ["admin"]),
        (
            "groups",
            "/web=operator:web-*, /web=viewer, cn=db=admin:db",
            {"groups": ["/web", "cn=db", "/other"]},
            ["operator:web-*", "viewer", "admin:db"],
        ),
    ],
)
def test_roles_come_from_any_claim_as_they_are_or_by_a_table(
    claim: str, given: str, claims: dict[str, object], roles: list[str]
) -> None:
    environment = {"CONSOLE_ROLES_CLAIM": claim, "CONSOLE_ROLES": given}
    assert list(roles_in(claims, ConsoleSettings.from_environment(environment).roles)) == roles


@pytest.mark.parametrize("given", ["ops", "=admin", "ops=root", "ops=", "ops=Admin:web"])
def test_a_table_without_roles_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="must be value=role, as in ops=admin"):
        ConsoleSettings.from_environment({"CONSOLE_ROLES": given})


@pytest.fixture(scope="module")
def strict() -> Iterator[RunningConsole]:
    """A console in which users need a role to view."""
    roles = RoleSettings(everybody_views=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "USERS", (*demo.USERS, SOME, NONE))
        with hosting_console(roles=roles) as console:
            yield console


@pytest.fixture
def sam(strict: RunningConsole) -> Iterator[Browser]:
    with signed_in(strict, "SS Sam Some") as browser:
        yield browser


def test_an_operator_uses_a_machine_and_does_not_change_it(strict: RunningConsole) -> None:
    with signed_in(strict, "CO Carol Operator") as carol:
        carol.open_until("demo Running", "/")
        carol.open("/machines/demo")
        carol.click("Pause")
        assert "Paused" in carol.text
        carol.click("Resume")
        assert not carol.has_button("Delete")
        token = carol.field("csrf_token")
        carol.post("/machines/demo/metadata", {"csrf_token": token, "document.contents": "{}"})
        assert carol.status == 403
        assert "Only an admin may" in carol.text
        carol.open("/machines/demo/metadata")
        assert "Save document" not in carol.text
        carol.open("/new")
        assert carol.status == 403


def test_machines_that_a_user_may_not_view_are_not_there(
    strict: RunningConsole, sam: Browser
) -> None:
    sam.open_until("demo Running", "/")
    assert set(sam.page.links) & {"demo", "fresh", "Images"} == {"demo"}
    for path in ("/machines/fresh", "/machines/nobody", "/machines/fresh/state"):
        sam.open(path)
        assert (sam.status, "There is no such machine." in sam.text) == (404, True)
    sam.post("/machines/fresh/delete", {"csrf_token": "x"})
    assert sam.status == 404
    sam.open("/images")
    assert sam.status == 403


def test_events_of_other_machines_are_not_found_or_exported(
    strict: RunningConsole, sam: Browser
) -> None:
    with signed_in(strict) as alice:
        alice.open_until("demo Running", "/")
        alice.open("/machines/fresh")
        alice.click("Delete")
        alice.open("/events")
        assert "fresh" in alice.text
    sam.open("/events/export?form=jsonl")
    assert '"machine": "fresh"' not in sam.body
    sam.open("/events")
    assert "fresh" not in sam.text


def test_a_user_without_a_role_views_nothing(strict: RunningConsole) -> None:
    with signed_in(strict, "NN Nora None") as nora:
        nora.open("/")
        assert nora.status == 200
        assert "demo" not in nora.page.links
        nora.open("/machines/demo")
        assert nora.status == 404
