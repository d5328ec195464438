"""The API for programs: the changes of the forms, with the same rights and the same trail."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from examples.console import demo
from examples.console.changes import CHANGES, CREATE
from examples.console.settings import RoleSettings
from fastapi_oidc.testing import DevClient, DevProvider, DevResource
from tests.console.running import RunningConsole, hosting_console, signed_in

AUDIENCE = "https://console.test/api"
SCOPES = ("machines:read", "machines:write")
SECRET = secrets.token_urlsafe(32)
Program = Callable[..., httpx.Client]


def provider_with_a_program(
    *, users: Any, clients: list[DevClient], resources: list[DevResource]
) -> DevProvider:
    program = DevClient(
        client_id="program", client_secret=SECRET, access_token_format="jwt", audience=AUDIENCE
    )
    resources = [*resources, DevResource(AUDIENCE, SCOPES)]
    return DevProvider(users=users, clients=[*clients, program], resources=resources)


@pytest.fixture(scope="module")
def house() -> Iterator[RunningConsole]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "DevProvider", provider_with_a_program)
        with hosting_console(
            api_audience=AUDIENCE, roles=RoleSettings(everybody_views=False)
        ) as console:
            with signed_in(console) as alice:
                alice.open_until("demo Running", "/")
            yield console


@pytest.fixture
def program(house: RunningConsole) -> Iterator[Program]:
    """Makes a client with a token of these roles."""
    made: list[httpx.Client] = []

    def client(*roles: str, scope: str = " ".join(SCOPES)) -> httpx.Client:
        provider = house.parts.provider
        assert provider is not None
        provider.edits.put("access_token", lambda usual: {**usual, "roles": list(roles)})
        form = {"grant_type": "client_credentials", "scope": scope}
        answer = httpx.post(
            f"{provider.issuer}/token", data=form, auth=("program", SECRET), timeout=60
        )
        assert answer.status_code == 200, answer.text
        token = answer.json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        made.append(httpx.Client(base_url=f"{house.url}/api/v1", headers=headers, timeout=60))
        return made[-1]

    yield client
    for one in made:
        one.close()


def test_machines_are_listed_and_described(program: Program) -> None:
    admin = program("admin")
    found = {one["name"]: one["state"] for one in admin.get("/machines").json()}
    assert found == {"demo": "Running", "fresh": "Not started"}
    made = admin.get("/machines/demo/configuration").json()
    assert made["machine-config" if "machine-config" in made else "machine_config"]["vcpu_count"]
    missing = admin.get("/machines/nobody")
    assert (missing.status_code, missing.json()) == (404, {"refused": "There is no such machine."})


def test_a_change_is_that_of_the_form_and_in_the_trail(
    house: RunningConsole, program: Program
) -> None:
    admin = program("admin")
    wanted = {"machine_config.vcpu_count": 3, "machine_config.mem_size_mib": 256}
    assert admin.post("/machines/fresh/setup", json=wanted).status_code == 422
    refused = admin.post("/machines/fresh/setup", json=wanted).json()
    assert refused["refused"]
    assert "boot_source.kernel_image_path" in refused["fields"]
    assert admin.post("/machines/demo/pause").status_code == 204
    again = admin.post("/machines/demo/pause")
    assert again.status_code == 409
    assert admin.get("/machines/demo").json()["state"] == "Paused"
    assert admin.post("/machines/demo/resume").status_code == 204
    with signed_in(house) as alice:
        alice.open("/machines/demo", sees="program")
        assert "The machine is paused." in alice.text


def test_the_rights_are_those_of_the_pages(house: RunningConsole, program: Program) -> None:
    operator = program("operator:demo")
    assert [one["name"] for one in operator.get("/machines").json()] == ["demo"]
    assert operator.get("/machines/fresh").status_code == 404
    assert operator.post("/machines/fresh/delete").status_code == 404
    refused = operator.post("/machines/demo/delete")
    assert (refused.status_code, refused.json()["refused"]) == (
        403, f"Only an admin may {CHANGES['delete'].verb}.",
    )  # fmt: skip
    assert operator.post("/machines", json={"new.name": "mine"}).status_code == 403
    assert program("staff").get("/machines").json() == []
    with signed_in(house) as alice:
        alice.open("/events?refused=true&machine=demo")
        assert f"Tried to {CHANGES['delete'].verb}. just now program" in alice.text


def test_an_admin_of_some_machines_clones_only_to_their_names(program: Program) -> None:
    admin, wanted = program("admin:demo*"), {"clone.taps": "eth0=tap8"}
    refused = admin.post("/machines/demo/clone", json={"clone.name": "other", **wanted})
    assert refused.status_code == 403
    made = admin.post("/machines/demo/clone", json={"clone.name": "demo-of-mine", **wanted})
    assert made.status_code == 204, made.text
    for act in ("stop", "delete"):
        assert admin.post(f"/machines/demo-of-mine/{act}").status_code == 204


def test_tokens_need_their_scope_and_strangers_learn_nothing(
    house: RunningConsole, program: Program
) -> None:
    reader = program("admin", scope="machines:read")
    assert reader.get("/machines").status_code == 200
    for name in ("demo", "nobody"):
        refused = reader.post(f"/machines/{name}/pause")
        assert refused.status_code == 403
        assert "insufficient_scope" in refused.headers["www-authenticate"]
        stranger = httpx.post(f"{house.url}/api/v1/machines/{name}/pause", timeout=60)
        assert stranger.status_code == 401
    told = {"person": "program", "text": "Tried to call POST /api/v1/machines/demo/pause."}
    [found] = reader.get("/events", params=told).json()
    assert (found["refused"], found["address"]) == (
        "The access token lacks a required scope.",
        "127.0.0.1",
    )
    assert reader.get("/machines/demo").json()["state"] == "Running"


def test_a_machine_is_created_and_deleted(program: Program) -> None:
    admin = program("admin")
    created = admin.post(
        "/machines", json={"new.name": "by-program", "machine_config.vcpu_count": 1}
    )
    assert created.status_code == 422
    kernel = admin.get("/machines/demo/configuration").json()
    source = next(value for name, value in kernel.items() if name.startswith("boot"))
    wanted = {
        "new.name": "by-program",
        "machine_config.vcpu_count": 1,
        "machine_config.mem_size_mib": 128,
        "boot_source.kernel_image_path": source["kernel_image_path"],
    }
    assert admin.post("/machines", json=wanted).status_code == 204
    made, _ = admin.get("/events", params={"machine": "by-program"}).json()
    assert "Memory in MiB: nothing → 128" in made["detail"]
    assert admin.post("/machines/by-program/delete").status_code == 204
    assert admin.get("/machines/by-program").status_code == 404


def test_snapshots_are_listed_restored_and_deleted(program: Program) -> None:
    admin, operator = program("admin"), program("operator:demo")
    name = {"named_snapshot.name": "before"}
    assert operator.post("/machines/demo/named_snapshot", json=name).status_code == 204
    [snapshot] = operator.get("/snapshots").json()
    assert (snapshot["name"], snapshot["machine_name"]) == ("before", "demo")
    assert program("viewer:fresh").get("/snapshots").json() == []
    wanted = {"new.name": "again", "new.snapshot": snapshot["id"], "new.taps": "eth0=tap7"}
    assert admin.post("/machines-from-snapshots", json=wanted).status_code == 204
    assert admin.post("/machines/again/stop").status_code == 204
    assert admin.post("/machines/again/delete").status_code == 204
    path = f"/snapshots/{snapshot['id']}"
    assert operator.delete(path).status_code == 403
    assert [admin.delete(path).status_code for _ in range(2)] == [204, 422]
    assert admin.get("/snapshots").json() == []


def test_events_are_those_of_machines_that_the_caller_may_view(program: Program) -> None:
    admin, viewer = program("admin"), program("viewer:fresh")
    assert admin.post("/machines/demo/pause").status_code == 204
    assert admin.post("/machines/demo/resume").status_code == 204
    search = {"machine": "demo", "person": "program"}
    newest, *older = admin.get("/events", params=search).json()
    assert (newest["what"], newest["by"]["name"]) == (CHANGES["resume"].done, "program")
    assert admin.get("/events", params={**search, "before": newest["id"]}).json() == older
    assert viewer.get("/events", params=search).json() == []


@pytest.mark.parametrize("body", ["[]", "{", '"a"', '{"new.name": "\\ud800"}', "[" * 9999])
def test_a_body_that_is_no_object_is_refused(program: Program, body: str) -> None:
    answer = program("admin").post("/machines/demo/pause", content=body)
    assert (answer.status_code, answer.json()["refused"]) == (
        422,
        "The body must be a JSON object.",
    )


def test_the_description_has_every_change_with_its_inputs(house: RunningConsole) -> None:
    document = httpx.get(f"{house.url}/api/v1/openapi.json", timeout=60).json()
    for change in CHANGES.values():
        operation = document["paths"][f"/api/v1/machines/{{machine}}/{change.name}"]["post"]
        assert operation["security"]
        inputs = {
            f"{section.key}.{one.name}" for section in change.sections for one in section.fields
        }
        if change.has_inputs:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert set(schema["properties"]) == inputs
    create = document["paths"]["/api/v1/machines"]["post"]
    assert create["operationId"] == CREATE.name
