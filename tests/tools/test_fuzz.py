"""Each target of `make fuzz` holds for its corpus, and would tell of a find."""

import json
from pathlib import Path
from random import Random

import pytest

from fastapi_oidc.protocol.metadata import ProviderMetadata
from tools.fuzz.json_changes import changed
from tools.fuzz.targets import CORPUS, TARGETS

CASES = sorted(CORPUS.glob("*/*"))


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {path.parent.name for path in CASES} == set(TARGETS)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_target_holds_for_its_corpus(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_an_error_that_is_not_documented_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object, **__: object) -> None:
        raise KeyError("issuer")

    monkeypatch.setattr(ProviderMetadata, "parse", parse)
    with pytest.raises(KeyError):
        TARGETS["discovery"]((CORPUS / "discovery" / "valid").read_bytes())


def test_what_is_changed_in_json_stays_json_between_what_is_not() -> None:
    head, tail = b"HTTP/1.1 200 OK\r\n\r\n", b"\xff\n"
    written = [changed(head + b'{"a": [1, "b", null, 0.5]}' + tail, Random(n)) for n in range(200)]
    bodies = [each.removeprefix(head).removesuffix(tail) for each in written if each is not None]
    assert len(bodies) == 200
    assert all(isinstance(json.loads(body), dict) for body in bodies)
    assert len(set(bodies)) > 50


def test_an_object_without_members_gets_one() -> None:
    written = changed(b"{}", Random(1))
    assert written is not None
    assert len(json.loads(written)) == 1


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b'{"a": {', b"\xff{"])
def test_what_has_no_json_object_is_left_to_others(data: bytes) -> None:
    assert changed(data, Random(1)) is None


def test_json_of_any_depth_is_changed_or_left_to_others() -> None:
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    written = [changed(deep, Random(n)) for n in range(20)]
    assert {each[:5] for each in written if each is not None} == {b'{"a":'}
