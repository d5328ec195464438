"""Kernels, disks and snapshots: seen, chosen, written by one, deleted when unused."""

import io
import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from examples.console.entrance import MOST
from examples.console.library import DAY_SECONDS, Library
from tests.console.browser import (
    PATIENCE,
    Browser,
    answer_to_the_first_part,
    create,
    delete,
    do,
)
from tests.console.running import BOB, RunningConsole, signed_in


def test_things_are_listed_with_their_users_and_deleted_when_unused(
    alice: Browser, console: RunningConsole
) -> None:
    disk = console.disk("spare")
    create(alice, "keeper", new__start="")
    typed = {"drive.path_on_host": str(disk), "drive.is_read_only": "true"}
    typed["drive.drive_id"] = "data"
    do(alice, "keeper", "devices", "Add drive", typed)
    alice.open("/images", sees="vmlinux")
    assert "named by a setting" in alice.text
    assert not alice.has_button("Delete spare")
    token = alice.field("csrf_token")
    found = disk.stat()
    thing = f"{found.st_dev:x}-{found.st_ino:x}"
    form = {"csrf_token": token, "place": "disks", "thing": thing, "confirmed": "yes"}
    alice.post("/images/delete", form)
    alice.require(422, "The file spare is used by keeper.")
    delete(alice, "keeper")
    alice.open("/images")
    alice.click("Delete spare", sees="Deleted.")
    assert not disk.exists()
    alice.post("/images/delete", form)
    assert "This file does not exist any more." in alice.text
    alice.post("/images/delete", {**form, "place": "elsewhere"})
    assert alice.status == 422
    alice.open("/events?text=spare", sees="Deleted spare of the disks.")


def test_of_two_files_with_one_name_the_right_one_is_deleted(tmp_path: Path) -> None:
    given = tmp_path / "elsewhere" / "disk"
    given.parent.mkdir()
    given.write_bytes(b"given")
    library = Library(tmp_path / "images", {"disks": [given]})
    own = library.folders["disks"] / "disk"
    own.write_bytes(b"own")
    things = library.things("disks", lambda path: [])
    (mine,) = (thing for thing in things if thing.path == own)
    assert [thing.name for thing in things] == ["disk", "disk"]
    library.delete("disks", mine.id, lambda path: [])
    assert not own.exists()
    assert given.read_bytes() == b"given"


def test_a_file_that_was_cut_off_by_a_kill_is_removed(tmp_path: Path) -> None:
    library = Library(tmp_path, {})
    old, new = (library.folders["disks"] / f".{name}.part" for name in ("0123", "4567"))
    for path in (old, new):  # the new one may be that of another console with the same folder
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - DAY_SECONDS - 1))
    library.add("disks", "first.part", io.BytesIO(bytes(512)))
    Library(tmp_path, {})
    assert {path.name for path in library.folders["disks"].iterdir()} == {"first.part", new.name}
    assert [thing.name for thing in library.things("disks", lambda path: [])] == ["first.part"]


def test_without_a_machines_record_nobody_knows_who_uses_a_file(
    alice: Browser, console: RunningConsole
) -> None:
    console.disk("unknown")
    machine = console.machine()
    record = console.host.launch.machines / "machines" / machine.id / "machine.json"
    known = record.read_bytes()
    alice.open("/images")
    form = alice.form_of("/images/delete")
    record.write_bytes(b"no record")
    alice.open("/images")
    alice.require(200, "unknown")
    assert not alice.has_button("Delete unknown")
    alice.post("/images/delete", {**form, "confirmed": "yes"})
    assert alice.status == 422
    assert (console.host.library.folders["disks"] / "unknown").exists()
    console.server.do(console.host._reconcile())  # which misses the machine
    record.write_bytes(known)
    alice.open_until("demo Not started", "/")


def test_a_file_whose_name_is_no_text_is_not_shown(alice: Browser, console: RunningConsole) -> None:
    odd = Path(os.fsdecode(os.fsencode(console.disk("odd").parent) + b"/odd-\xff\n"))
    odd.write_bytes(bytes(4096))
    alice.open("/images")
    alice.require(200, "odd")
    assert "odd-" not in alice.text
    alice.open("/new")
    assert alice.status == 200
    odd.unlink()


def test_a_machine_without_a_disk_boots_from_its_initial_ram_disk(
    alice: Browser, console: RunningConsole
) -> None:
    initrd = str(console.disk("initrd.img"))
    create(alice, "diskless", root_drive__path_on_host="", boot_source__initrd_path=initrd)
    assert "diskless Running" in alice.text
    alice.open("/machines/diskless/devices", sees="There are no drives.")


def test_files_that_a_setting_names_may_be_anywhere(tmp_path: Path) -> None:
    kernel = tmp_path / "elsewhere" / "vmlinux"
    kernel.parent.mkdir()
    kernel.write_bytes(b"kernel")
    library = Library(tmp_path / "images", {"kernels": [kernel]})
    assert kernel in library.files
    (thing,) = library.things("kernels", lambda path: [])
    assert thing.name == "vmlinux"
    with pytest.raises(ValueError, match="a setting"):
        library.delete("kernels", thing.id, lambda path: [])


# Images that are uploaded: bounded, checked, and there as a whole or not at all


KERNEL = b"\x7fELF\x02" + bytes(59)


@pytest.fixture
def uploader(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host) as browser:
        browser.open("/images")
        yield browser


def folder(host: RunningConsole) -> Path:
    assert host.parts.folder is not None
    return host.parts.folder / "images"


def upload(person: Browser, place: str, name: str, content: bytes) -> None:
    person.open("/images")
    form = {"csrf_token": person.field("csrf_token")}
    person.post(f"/images/upload?place={place}", form, file=(name, content))


def test_a_kernel_and_a_disk_are_uploaded_and_recorded(
    host: RunningConsole, uploader: Browser
) -> None:
    upload(uploader, "kernels", "vmlinux-new", KERNEL)
    uploader.require(200, "Uploaded.")
    upload(uploader, "disks", "new.ext4", bytes(1024))
    uploader.require(200, "Uploaded.")
    assert (folder(host) / "kernels/vmlinux-new").read_bytes() == KERNEL
    assert (folder(host) / "disks/new.ext4").stat().st_size == 1024
    uploader.open("/events", sees="Uploaded new.ext4 to the disks: 1024 bytes.")


@contextmanager
def half_sent(host: RunningConsole, person: Browser, name: str) -> Iterator[Future[httpx.Response]]:
    """A disk of which the second half is sent after the block."""
    whole = httpx.Request(
        "POST",
        f"{host.url}/images/upload?place=disks",
        data={"csrf_token": person.field("csrf_token")},
        files={"file": (name, bytes(2 << 20))},
    )
    body, over = whole.read(), threading.Event()

    def halves() -> Iterator[bytes]:
        yield body[: len(body) // 2]
        over.wait(PATIENCE)
        yield body[len(body) // 2 :]

    with ThreadPoolExecutor() as pool:
        try:
            yield pool.submit(
                httpx.post,
                whole.url,
                content=halves(),
                headers=whole.headers,
                cookies=person.cookies,
            )
        finally:
            over.set()


def test_an_upload_is_seen_by_others_with_its_progress(
    host: RunningConsole, uploader: Browser
) -> None:
    with half_sent(host, uploader, "slow.ext4") as sent, signed_in(host, BOB) as bob:
        bob.open_until("A file Alice Admin uploads it to the disks", "/images")
        bob.open_until("1 MiB of 2 MiB", "/images/arriving")
        assert 'value="0.50"' in bob.body
    assert sent.result().headers["location"].endswith("done=Uploaded.")
    uploader.open("/images/arriving")
    assert uploader.text == ""


def test_an_upload_of_a_user_who_signed_out_meanwhile_leaves_nothing(
    host: RunningConsole, uploader: Browser
) -> None:
    before = sorted(folder(host).rglob("*"))
    with half_sent(host, uploader, "late.ext4") as sent, signed_in(host, BOB) as bob:
        bob.open_until("1 MiB of 2 MiB", "/images/arriving")
        signed_out = httpx.post(f"{host.url}/auth/logout", cookies=uploader.cookies)
        assert signed_out.is_redirect
    answer = sent.result()
    assert (answer.status_code, answer.headers.get("location")) == (401, None)
    assert "The file is not stored: you were signed out meanwhile." in answer.text
    assert "Kernels" not in answer.text
    assert sorted(folder(host).rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "name", "content", "why"),
    [
        ("kernels", "bzImage", b"MZ" + bytes(62), "This is no kernel"),
        ("disks", "odd", bytes(513), "no multiple of 512"),
        ("disks", "nothing", b"", "no multiple of 512"),
        ("disks", "../../escape", bytes(512), "A name has letters"),
        ("disks", ".hidden", bytes(512), "A name has letters"),
        ("disks", "large", bytes(4096), "This form is too long."),
    ],
)
def test_what_is_refused_leaves_nothing(
    host: RunningConsole,
    uploader: Browser,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    name: str,
    content: bytes,
    why: str,
) -> None:
    monkeypatch.setitem(MOST, re.compile("/images/upload"), 2048)
    before = sorted(folder(host).rglob("*"))
    upload(uploader, place, name, content)
    uploader.require(413 if name == "large" else 422, why)
    assert sorted(folder(host).rglob("*")) == before


@pytest.mark.parametrize("fields", [{}, {"csrf_token": "of another site"}])
def test_a_large_file_of_another_sites_form_is_refused_before_it_is_read(
    host: RunningConsole, uploader: Browser, fields: dict[str, str]
) -> None:
    answer = answer_to_the_first_part(uploader, f"{host.url}/images/upload?place=disks", fields)
    assert answer == "HTTP/1.1 403"


def test_an_upload_that_is_no_form_is_refused(host: RunningConsole, uploader: Browser) -> None:
    answer = httpx.post(f"{host.url}/images/upload?place=disks", cookies=uploader.cookies)
    assert answer.status_code == 422


def test_a_file_is_never_replaced(host: RunningConsole, uploader: Browser) -> None:
    upload(uploader, "disks", "once", bytes(512))
    upload(uploader, "disks", "once", bytes(1024))
    uploader.require(422, "There is a file called once.")
    assert (folder(host) / "disks/once").stat().st_size == 512
