"""What somebody who made a mistake has before them: the log, a terminal, a browser."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest


@dataclass
class Desk:
    """The place of one mistake."""

    monkeypatch: pytest.MonkeyPatch
    caplog: pytest.LogCaptureFixture
    folder: Path

    @property
    def log(self) -> str:
        """What the library has logged so far."""
        own = [each for each in self.caplog.records if each.name.startswith("fastapi_oidc.")]
        return "\n".join(record.getMessage() for record in own)


Mistake: TypeAlias = Callable[[Desk], Awaitable[str]]
"""Makes a mistake, and returns what its maker reads."""
