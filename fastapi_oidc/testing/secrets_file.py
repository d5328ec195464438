"""The file of `python -m fastapi_oidc.testing` with keys and secrets for its next start."""

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
    """The file exists, but this command did not write it."""


class SavedSecrets(BaseModel):
    """The secrets that stay the same when the provider restarts."""

    client_secret: str = Field(default_factory=_new_secret, repr=False)
    cookie_secret: str = Field(default_factory=_new_secret, repr=False)
    keys: dict[str, SavedKey] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file, or make new secrets without one; raises OSError, UnusableFile."""
        try:
            return cls.model_validate_json(path.read_bytes(), extra="forbid")
        except FileNotFoundError:
            return cls()
        except ValidationError:
            raise _unusable(path) from None

    def share(self, keys: SigningKeys, path: Path) -> None:
        """Load the file's keys into `keys`, and write all of them to it; raises like `read`."""
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
