"""The derivation of the sync half: its rules, and that it stops at what it does not know."""

import re
import shutil
from pathlib import Path

import pytest

from codegen import unasync
from codegen.document import Unusable
from codegen.unasync import PACKAGES, derive, sync_of
from tests.vmm.codegen.descriptions import PROJECT

PLACE = Path("generated_vmm/facade/_async/more.py")

LINES = {
    "async def get(self) -> int: ...": "def get(self) -> int: ...",
    "value = await self.send(await made())": "value = self.send(made())",
    "async with limit, other: ...": "with limit, other: ...",
    "class AsyncThing(AsyncResource): ...": "class Thing(Resource): ...",
    "from vmm.facade._async.more import x": "from vmm.facade._sync.more import x",
    "async_channel_to(path)": "channel_to(path)",
    "async def __aenter__(self): ...": "def __enter__(self): ...",
    "from a import Asynchrony": "",
    "future = asyncio.Future()": "",
    "call = send; call_async()": "",
}


@pytest.mark.parametrize(("line", "made"), [found for found in LINES.items() if found[1]])
def test_a_line_becomes_sync(line: str, made: str) -> None:
    note, _, text = sync_of(line, PLACE, set()).partition("\n")
    assert text == made
    assert note == f"# Derived from `{PLACE}` by `make codegen`. Do not edit."


@pytest.mark.parametrize("line", [line for line, made in LINES.items() if not made])
def test_a_line_that_no_rule_makes_sync_stops_it_with_the_place_and_what_to_do(line: str) -> None:
    with pytest.raises(Unusable, match=re.escape(f"{PLACE}:2: no rule")) as caught:
        sync_of(f"\n{line}", PLACE, set())
    assert "rewrite the line, or add a rule" in str(caught.value)


def test_a_rule_that_nothing_needs_stops_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(unasync.RULES, r"\bneeded by no line\b", "x")
    with pytest.raises(Unusable, match=r"no module needs the rules \['.*needed by no line"):
        derive(PROJECT.written, tmp_path)


def test_each_module_has_a_sync_half_in_the_same_package(tmp_path: Path) -> None:
    written = tmp_path / "generated_vmm"
    shutil.copytree(PROJECT.written, written)
    folders = derive(written, tmp_path / "made")
    assert folders == [tmp_path / "made" / package / "_sync" for package in PACKAGES]
    for package, folder in zip(PACKAGES, folders, strict=True):
        assert names(folder) == names(written / package / "_async")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.py")}


def test_both_hand_written_halves_have_the_same_names() -> None:
    """What derived modules import of one half the other half has."""
    halves = [PROJECT.written / "concurrency" / f"{half}.py" for half in ("_async", "_sync")]
    taken = re.compile(r"from generated_vmm\.concurrency\._a?sync import (?:\(([^)]*)\)|(.*))")
    for path in PROJECT.written.rglob("_*sync/*.py"):
        for found in taken.finditer(path.read_text(encoding="utf-8")):
            for name in re.findall(r"\w+", found[1] or found[2]):
                for half in halves:
                    assert re.search(rf"^(async def|def|class)? ?{name}\b", half.read_text(), re.M)
