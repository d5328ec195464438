"""Which variables of the environment belong to an instance, and which are misspelt."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import DotEnvSettingsSource, PydanticBaseSettingsSource

PREFIX = "OIDC_"
DEFAULT_NAME = "oidc"
FILE = ".env"
SIMILARITY = 0.85
"""How alike a variable and an option must be for the one to be meant as the other (0 to 1)."""

_logger = logging.getLogger("fastapi_oidc.configuration")


def prefix_of(name: object) -> str:
    """`OIDC_`, or `OIDC_PARTNERS_` for the instance `partners`, which reads no other variable."""
    if not isinstance(name, str) or name == DEFAULT_NAME:
        return PREFIX
    return f"{PREFIX}{name.upper().replace('-', '_')}_"


class FileOfVariables(PydanticBaseSettingsSource):
    """A `.env` file, which may have variables of others too."""

    def __init__(self, file: DotEnvSettingsSource) -> None:
        super().__init__(file.settings_cls)
        self._file = file

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The value of one option."""
        return self._file.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        """What the file says of options; a misspelt variable is logged."""
        options, variables = self.settings_cls.model_fields, self._file.env_vars
        misspelt(self._file.env_prefix, options, variables)
        return {
            name: value
            for name, value in self._file().items()
            if name in options or name not in variables
        }


def unread_file(values: Mapping[str, Any], configured: object) -> str | None:
    """The name of a `.env` file that is here, when the settings name no file at all."""
    is_named = configured is not None or "_env_file" in values
    return None if is_named or not Path(FILE).is_file() else FILE


def misspelt(prefix: str, options: Collection[str], variables: Iterable[str]) -> Mapping[str, str]:
    """Those of `variables` that nothing reads, each with the one that is meant; both are logged.

    `OIDC_PARTNERS_SCOPE` is taken for a variable of another instance.
    """
    known = {prefix + option.upper() for option in options}
    others = tuple(f"_{option.upper()}" for option in options)
    found: dict[str, str] = {}
    for variable in map(str.upper, variables):
        if variable in known or not variable.startswith(prefix) or variable.endswith(others):
            continue
        if meant := get_close_matches(variable, known, n=1, cutoff=SIMILARITY):
            found[variable] = meant[0]
            _logger.warning("%s is not read: is %s meant?", variable, meant[0])
    return found
