"""Rights: what roles mean, for all machines or some, and what is hidden from the others."""

import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi.openapi.utils import get_openapi

from examples.console import demo
from examples.console.access import NO_APIS, Apis
from examples.console.account import RIGHTS, User, roles_in
from examples.console.app import create_app
from examples.console.changes import CHANGES
from examples.console.monitors import Monitors
from examples.console.settings import ConsoleSettings, RoleSettings, SettingsError
from fastapi_oidc.testing import DevUser
from tests.console.browser import Browser
from tests.console.running import BOB, RunningConsole, hosting_console, signed_in

SOME = DevUser("sam", "Sam Some", "sam@example.com", {"roles": ["operator:demo", "viewer:web-*"]})


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
        patch.setattr(demo, "USERS", (*demo.USERS, SOME))
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
        carol.click("Pause", sees="Paused")
        carol.click("Resume")
        assert not carol.has_button("Delete")
        token = carol.field("csrf_token")
        carol.post("/machines/demo/metadata", {"csrf_token": token, "document.contents": "{}"})
        carol.require(403, "Only an admin may")
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
        sam.require(404, "There is no such machine.")
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
        alice.open("/events", sees="fresh")
    sam.open("/events/export")
    assert "fresh" not in sam.body
    sam.open("/events")
    assert "fresh" not in sam.text


def test_an_act_on_a_machine_that_the_user_may_not_view_is_in_the_trail(
    strict: RunningConsole, sam: Browser
) -> None:
    sam.open("/")
    sam.post("/machines/nobody/stop", {"csrf_token": sam.field("csrf_token"), "confirmed": "yes"})
    sam.require(404, "There is no such machine.")
    with signed_in(strict) as alice:
        alice.open("/events?text=nobody/stop&refused=true", sees="Sam Some")
        assert "Tried to call POST /machines/nobody/stop." in alice.text
        assert "There is no such machine." in alice.text


# Who may do what: strangers learn nothing, viewers change nothing, by every route there is


OPEN = {"/signed-out", "/metrics"}
OF_EVERYBODY = {"/account/sign-out-everywhere"}
"""What viewers may post: the end of their own sessions."""
NAVIGATION = {"accept": "text/html", "sec-fetch-mode": "navigate"}


def own_routes(host: RunningConsole, apis: Apis = NO_APIS) -> list[tuple[str, str]]:
    """Method and path of every route of the console; those of the library are under /auth."""
    monitors = host.parts.monitors if apis.routes else Monitors({})
    app = create_app(host.parts.oidc, monitors, apis=apis)
    described = get_openapi(title="", version="", routes=app.routes)["paths"]
    if monitors is not host.parts.monitors:
        monitors.records.close()
    return [
        (method.upper(), path)
        for path, methods in described.items()
        for method in methods
        if not path.startswith("/auth") and path not in OPEN
    ]


def addressed(path: str, machine: str) -> str:
    names = {"machine": machine, "tab": "overview", "change": "start"}
    return re.sub(r"{(\w+)}", lambda name: names.get(name[1], "any"), path)


@pytest.fixture
def bob(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host, BOB) as browser:
        browser.open_until("demo Running", "/")
        yield browser


@pytest.mark.parametrize("headers", [NAVIGATION, {"accept": "application/json"}])
def test_a_stranger_cannot_tell_a_machine_from_none(
    host: RunningConsole, bob: Browser, headers: dict[str, str]
) -> None:
    with httpx.Client(base_url=host.url, headers=headers, timeout=60) as stranger:
        for method, path in own_routes(host):
            found = [
                answered(stranger, method, addressed(path, name), name)
                for name in ("demo", "nobody-here")
            ]
            assert found[0] == found[1], path
            assert found[0][0] in (302, 401), path


def answered(stranger: httpx.Client, method: str, path: str, name: str) -> tuple[object, ...]:
    """What tells one answer from another, without the name that was asked for."""
    response = stranger.request(method, path)
    return (
        response.status_code,
        response.text.replace(name, "NAME"),
        response.headers.get("location", "").replace(name, "NAME"),
    )


def test_a_viewer_with_a_valid_form_changes_nothing(host: RunningConsole, bob: Browser) -> None:
    token, page = bob.field("csrf_token"), bob.url
    for method, path in own_routes(host):
        if method != "POST" or path in OF_EVERYBODY:
            continue
        bob.post(addressed(path, "demo"), {"csrf_token": token, "new.name": "mine", "line": "x"})
        assert bob.status == 403, path
        assert "no longer valid" not in bob.text, path
        bob.open(page)
    bob.open("/", sees="demo Running")
    assert "mine" not in bob.page.links


@pytest.mark.parametrize("name", list(CHANGES))
def test_each_change_is_for_admins(host: RunningConsole, bob: Browser, name: str) -> None:
    token = bob.field("csrf_token")
    bob.post(f"/machines/demo/{name}", {"csrf_token": token})
    assert bob.status == 403
    who = {"operate": "an operator", "administer": "an admin"}[CHANGES[name].right]
    assert f"Only {who} may {CHANGES[name].verb}." in bob.text
