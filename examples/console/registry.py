"""The list of machines, in a file that outlives the console."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import StringConstraints, TypeAdapter, ValidationError

from examples.console.kept import Kept
from examples.console.settings import SettingsError

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,31}$"
MachineName: TypeAlias = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

_KEPT: Final = TypeAdapter(dict[MachineName, Kept])


class Registry:
    """Machines by name, each with its configuration, in `machines.json` of a folder.

    The folder belongs to one console at a time. Raises SettingsError if another console uses it,
    or the file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "machines.json"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = (folder / "machines.lock").open("w")
        except OSError as error:
            raise SettingsError(f"{folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise SettingsError(f"another console keeps its machines in {folder}") from error

    def read(self) -> dict[str, Kept]:
        """The last written machines; none at first."""
        if not self._path.exists():
            return {}
        try:
            return _KEPT.validate_json(self._path.read_bytes())
        except (OSError, ValidationError) as error:
            raise SettingsError(f"{self._path} cannot be read") from error

    def write(self, machines: Mapping[str, Kept]) -> None:
        """Store `machines`; the file is replaced atomically."""
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(_KEPT.dump_json(dict(machines), by_alias=True, exclude_none=True))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def close(self) -> None:
        """Release the folder."""
        self._lock.close()
