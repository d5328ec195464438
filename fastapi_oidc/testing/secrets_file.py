"""The file in which `python -m fastapi_oidc.testing` saves keys and secrets for its next start."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Self

from pydantic import BaseModel, Field, ValidationError

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.testing.keys import SavedKey, SigningKeys


def _new_secret() -> str:
    return secrets.token_urlsafe(32)


class UnusableFile(Exception):
    """The file is there and is not one of this command."""


class SavedSecrets(BaseModel):
    """What an application still has when the provider starts again."""

    client_secret: str = Field(default_factory=_new_secret, repr=False)
    cookie_secret: str = Field(default_factory=_new_secret, repr=False)
    keys: dict[str, SavedKey] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        """What the file has, or new secrets without a file; raises OSError, UnusableFile."""
        try:
            return cls.model_validate_json(path.read_bytes(), extra="forbid")
        except FileNotFoundError:
            return cls()
        except ValidationError:
            raise _unusable(path) from None

    def share(self, keys: SigningKeys, path: Path) -> None:
        """Give `keys` those of the file, and write all of them into it; raises as `read`."""
        try:
            keys.restore(self.keys)
        except ConfigurationError:
            raise _unusable(path) from None
        self.keys |= keys.saved()
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self.model_dump_json(indent=2))
        draft.replace(path)


def _unusable(path: Path) -> UnusableFile:
    return UnusableFile(f"{path} is not a file of this command: choose another with --secrets")
