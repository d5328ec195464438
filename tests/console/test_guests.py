"""The guest's page: commands, files both ways and terminals, by the real agent."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.console import guest
from tests.console.browser import Browser, Upload, answer_to_the_first_part
from tests.console.running import BOB, RunningConsole, hosting_console, signed_in


@pytest.fixture(scope="module")
def house() -> Iterator[RunningConsole]:
    """A console whose simulated guests run the agent as a process of this host."""
    with hosting_console(simulated_agent=True) as console:
        yield console


@pytest.fixture
def carol(house: RunningConsole) -> Iterator[Browser]:
    with signed_in(house, "CO Carol Operator") as browser:
        browser.open_until("demo Running", "/")
        browser.open("/machines/demo/guest")
        yield browser


def test_a_command_runs_and_its_output_and_status_are_shown(carol: Browser) -> None:
    carol.click("Run", {"command": "echo $((6 * 7)); echo oh no >&2; exit 3"})
    assert "It ended with exit status 3. Output 42 Errors oh no" in carol.text
    carol.open("/machines/demo", sees="Ran 'echo $((6 * 7)); echo oh no >&2; exit 3' in the guest.")
    assert "Carol Operator" in carol.text


def test_markup_in_output_is_text(carol: Browser) -> None:
    carol.click("Run", {"command": "echo '<b>bold</b>'"})
    assert "&lt;b&gt;bold" in carol.body


def test_output_without_end_is_cut_off_and_said(carol: Browser) -> None:
    carol.click("Run", {"command": "yes"})
    carol.require(502, "wrote more than 1048576 bytes")


def hidden(person: Browser) -> dict[str, str]:
    """What every form of the page has."""
    return {name: person.field(name) for name in ("csrf_token", "machine_id")}


def test_the_form_of_an_earlier_machine_of_the_name_does_nothing(
    carol: Browser, tmp_path: Path
) -> None:
    earlier = {**hidden(carol), "machine_id": "of an earlier one"}
    path = str(tmp_path / "made")
    forms: dict[str, dict[str, Upload]] = {"run": {}, "terminal": {}, "file": {"file": ("a", b"x")}}
    for form, files in forms.items():
        fields = {**earlier, "command": f"touch {path}", "path": path}
        carol.post(f"/machines/demo/guest/{form}", fields, **files)
        carol.require(422, "The page is of an earlier machine of this name.")
    assert list(tmp_path.iterdir()) == []


def test_files_go_both_ways(carol: Browser, tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    fields = {**hidden(carol), "path": f"{tmp_path}/"}
    carol.post("/machines/demo/guest/file", fields, file=("name one.bin", content))
    carol.require(200, "The file is in the guest.")
    assert (tmp_path / "name one.bin").read_bytes() == content
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", (1 << 30) + 1)
    got, missing, large = (
        carol.ask("/machines/demo/guest/file", path=str(tmp_path / name))
        for name in ("name one.bin", "none", "large")
    )
    assert got.content == content
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''name%20one.bin"
    assert {large.status_code, missing.status_code} <= {422, 502, 507}
    assert "has more than 1073741824 bytes" in large.text
    assert "No such file or directory" in missing.text
    carol.open("/machines/demo")
    assert f"Wrote {tmp_path}/name one.bin in the guest: {len(content)} bytes." in carol.text


PART = "--x\r\nContent-Disposition: form-data; name="


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (PART + "csrf_token\r\n\r\n{token}\r\n" + PART + "file; filename=a\r\n\r\nhalf", "Choose"),
        (PART + "csrf_token\r\n\r\n{token}\r\n--x--\r\n", "Choose a file"),
        ("no form at all", "Invalid multipart data"),
        ((PART + "a\r\n\r\n\r\n") * 600, "Too many fields"),
        (PART + "a\r\n\r\n" + "b" * 9000, "Part exceeded maximum size"),
    ],
)
@pytest.mark.filterwarnings("ignore:Unclosed file:ResourceWarning")  # Starlette's, of half a file
def test_a_form_that_is_cut_off_writes_nothing(
    house: RunningConsole, carol: Browser, content: str, why: str
) -> None:
    answer = httpx.post(
        f"{house.url}/machines/demo/guest/file",
        content=content.replace("{token}", carol.field("csrf_token")),
        headers={"content-type": "multipart/form-data; boundary=x"},
        cookies=carol.cookies,
        timeout=60,
    )
    assert answer.status_code == 422
    assert why in answer.text
    carol.open("/events?machine=demo&text=write a file")
    assert why in carol.text


def test_a_file_of_another_sites_form_is_not_read(
    house: RunningConsole, carol: Browser, tmp_path: Path
) -> None:
    fields = {"csrf_token": "of somebody", "path": f"{tmp_path}/"}
    carol.post("/machines/demo/guest/file", fields, file=("a", b"x"))
    assert carol.status == 403
    assert list(tmp_path.iterdir()) == []
    large = answer_to_the_first_part(carol, f"{house.url}/machines/demo/guest/file", fields)
    assert large == "HTTP/1.1 403"


def terminal_of(person: Browser) -> str:
    """The address of a new terminal."""
    person.post("/machines/demo/guest/terminal", hidden(person))
    return f"/machines/demo/guest/terminal/{person.url.rpartition('=')[2]}"


def test_a_page_that_is_opened_after_much_output_shows_the_rest_once(
    house: RunningConsole, carol: Browser
) -> None:
    token, base = carol.field("csrf_token"), terminal_of(carol)

    def followed() -> tuple[bytes, bool]:
        """What the script of a page shows, and whether the screen was cleared before."""
        got, position, is_new = b"", "", False
        while (answer := client.get(f"{base}/stream", params={"position": position})).is_success:
            if answer.headers["Stream-Reset"] == "1":
                got, is_new = b"", True
            got += answer.content
            position = str(int(answer.headers["Stream-Position"]) + len(answer.content))
        assert answer.status_code == 410
        return got, is_new

    with httpx.Client(base_url=house.url, cookies=carol.cookies, timeout=60) as client:
        text = "head -c 3000000 /dev/zero | tr '\\0' x; echo end-$((6 * 7)); exit\n"
        client.post(f"{base}/input", data={"csrf_token": token, "text": text})
        first, first_is_new = followed()
        assert (first.count(b"x") > 3_000_000, first_is_new) == (True, False)
        second, second_is_new = followed()
        assert (second.count(b"end-42"), second_is_new) == (1, True)
        assert first.endswith(second)
        beyond = client.get(f"{base}/stream", params={"position": 10**9})
        unknown = client.get(f"{base[:-3]}abc/stream")
        assert (beyond.status_code, unknown.status_code) == (410, 410)


def test_what_a_program_does_not_read_is_told(
    house: RunningConsole, carol: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, address = carol.field("csrf_token"), f"{terminal_of(carol)}/input"
    with httpx.Client(base_url=house.url, cookies=carol.cookies, timeout=60) as client:
        typed = {"csrf_token": token, "text": "stty raw; exec sleep 600\n"}
        assert client.post(address, data=typed).status_code == 204
        monkeypatch.setattr(guest, "INPUT_SECONDS", 1.0)
        more = {"csrf_token": token, "text": "x" * 4000}
        while (answer := client.post(address, data=more)).status_code == 204:
            pass  # it is on its way
    assert answer.status_code == 409
    assert answer.json()["refused"] == "The program in the guest reads no input."


def test_a_viewer_reads_nothing_in_a_guest(house: RunningConsole) -> None:
    with signed_in(house, BOB) as bob:
        bob.open_until("demo Running", "/")
        bob.open("/machines/demo/guest", sees="Only an operator may use the guest.")
        assert bob.ask("/machines/demo/guest/file", path="/etc/passwd").status_code == 403
        assert bob.ask("/machines/demo/guest/terminal/x/stream").status_code == 403


def test_a_machine_without_an_agent_has_no_such_page(house: RunningConsole, carol: Browser) -> None:
    carol.open("/machines/fresh")
    assert "Guest" not in carol.page.links
    token = carol.field("csrf_token")
    carol.open("/machines/fresh/guest", sees="does not say that its guest has the agent")
    carol.post("/machines/fresh/guest/run", {"csrf_token": token, "command": "true"})
    assert carol.status == 409
