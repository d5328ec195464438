"""Images that are uploaded: bounded, checked, and there as a whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from examples.console import images
from tests.console.browser import PATIENCE, Browser
from tests.console.running import BOB, RunningConsole, signed_in

KERNEL = b"\x7fELF\x02" + bytes(59)


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host) as browser:
        browser.open("/images")
        yield browser


def folder(host: RunningConsole) -> Path:
    assert host.parts.folder is not None
    return host.parts.folder / "images"


def upload(host: RunningConsole, person: Browser, place: str, name: str, content: bytes) -> str:
    """What the page says after an upload."""
    response = httpx.post(
        f"{host.url}/images/upload",
        params={"place": place},
        data={"csrf_token": person.field("csrf_token")},
        files={"file": (name, content)},
        cookies=person.cookies,
        timeout=30,
    )
    return f"{response.status_code} {response.headers.get('location', '')} {response.text}"


def test_a_kernel_and_a_disk_are_uploaded_and_recorded(
    host: RunningConsole, alice: Browser
) -> None:
    assert "done=Uploaded." in upload(host, alice, "kernels", "vmlinux-new", KERNEL)
    assert "done=Uploaded." in upload(host, alice, "disks", "new.ext4", bytes(1024))
    assert (folder(host) / "kernels/vmlinux-new").read_bytes() == KERNEL
    assert (folder(host) / "disks/new.ext4").stat().st_size == 1024
    alice.open("/events")
    assert "Uploaded new.ext4 to the disks: 1024 bytes." in alice.text


def test_an_upload_is_seen_by_others_with_its_progress(
    host: RunningConsole, alice: Browser
) -> None:
    """The disk is sent in two halves; while the second one is awaited, another person looks."""
    whole = httpx.Request(
        "POST",
        f"{host.url}/images/upload?place=disks",
        data={"csrf_token": alice.field("csrf_token")},
        files={"file": ("slow.ext4", bytes(2 << 20))},
    )
    body, over = whole.read(), threading.Event()

    def halves() -> Iterator[bytes]:
        yield body[: len(body) // 2]
        over.wait(PATIENCE)
        yield body[len(body) // 2 :]

    with ThreadPoolExecutor() as pool:
        sent = pool.submit(
            httpx.post, whole.url, content=halves(), headers=whole.headers, cookies=alice.cookies
        )
        try:
            with signed_in(host, BOB) as bob:
                bob.open_until("slow.ext4 Alice Admin uploads it to the disks", "/images")
                bob.open_until("1 MiB of 2 MiB", "/images/arriving")
                assert 'value="0.50"' in bob.body
        finally:
            over.set()
        assert sent.result().headers["location"].endswith("done=Uploaded.")
    alice.open("/images/arriving")
    assert alice.text == ""


@pytest.mark.parametrize(
    ("place", "name", "content", "why"),
    [
        ("kernels", "bzImage", b"MZ" + bytes(62), "This is no kernel"),
        ("disks", "odd", bytes(513), "no multiple of 512"),
        ("disks", "nothing", b"", "no multiple of 512"),
        ("disks", "../../escape", bytes(512), "A name has letters"),
        ("disks", ".hidden", bytes(512), "A name has letters"),
        ("disks", "large", bytes(4096), "The file has more than"),
    ],
)
def test_what_is_refused_leaves_nothing(
    host: RunningConsole,
    alice: Browser,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    name: str,
    content: bytes,
    why: str,
) -> None:
    monkeypatch.setattr(images, "MOST_IMAGE", 2048)
    before = sorted(folder(host).rglob("*"))
    said = upload(host, alice, place, name, content)
    assert said.startswith("409")
    assert why in said
    assert sorted(folder(host).rglob("*")) == before


def test_a_file_is_never_replaced(host: RunningConsole, alice: Browser) -> None:
    upload(host, alice, "disks", "once", bytes(512))
    assert "There is a file called once." in upload(host, alice, "disks", "once", bytes(1024))
    assert (folder(host) / "disks/once").stat().st_size == 512


def test_others_upload_nothing(host: RunningConsole) -> None:
    with signed_in(host, BOB) as bob:
        bob.open("/images")
        assert upload(host, bob, "disks", "bobs", bytes(512)).startswith("403")
    with httpx.Client(base_url=host.url) as stranger:
        answer = stranger.post("/images/upload?place=disks", files={"file": ("a", bytes(512))})
    assert answer.status_code == 401
    assert not (folder(host) / "disks/bobs").exists()
