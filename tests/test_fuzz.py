"""Each target of `make fuzz` holds for its corpus, and would tell of a find."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastapi_oidc.protocol.metadata import ProviderMetadata
from fuzz.targets import CORPUS, TARGETS

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
