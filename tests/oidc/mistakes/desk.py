"""What somebody who made a mistake has before them: the log, a terminal, a browser."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from fastapi import FastAPI

from fastapi_oidc import OIDC, ConfigurationError, OIDCMiddleware
from tests.oidc.world import make_world


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


def error_of(mistake: Callable[[], object]) -> str:
    """The message of the ConfigurationError that the mistake raises."""
    with pytest.raises(ConfigurationError) as caught:
        mistake()
    return str(caught.value)


def an_instance(**options: Any) -> OIDC[Any, Any]:
    """An OIDC object, as good as any."""
    return make_world(**options).oidc


def an_application(oidc: OIDC[Any, Any]) -> FastAPI:
    """An application with the middleware alone."""
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    return app
