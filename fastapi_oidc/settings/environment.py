"""The environment variables of a registration, and warnings about misspelled ones."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import DotEnvSettingsSource, PydanticBaseSettingsSource

from fastapi_oidc.peer_names import OTHER_NAMES

PREFIX = "OIDC_"
DEFAULT_NAME = "oidc"
FILE = ".env"
SIMILARITY = 0.85
"""The similarity (0 to 1) from which an unknown variable counts as a misspelled option."""

CREDENTIALS = ("client_secret", "client_private_key")
"""Credentials from one provider, which must not be sent to another."""

_logger = logging.getLogger("fastapi_oidc.configuration")


def prefix_of(name: object) -> str:
    """`OIDC_`, or `OIDC_PARTNERS_` for the registration `partners`, which reads no others."""
    if not isinstance(name, str) or name == DEFAULT_NAME:
        return PREFIX
    return f"{PREFIX}{name.upper().replace('-', '_')}_"


class FileOfVariables(PydanticBaseSettingsSource):
    """A `.env` file, which may also have variables of other programs."""

    def __init__(self, file: DotEnvSettingsSource) -> None:
        super().__init__(file.settings_cls)
        self._file = file

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The value of one option."""
        return self._file.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        """The values of options in the file; a misspelled variable is logged."""
        options, variables = self.settings_cls.model_fields, self._file.env_vars
        misspelt(self._file.env_prefix, options, variables)
        return {
            name: value
            for name, value in self._file().items()
            if name in options or name not in variables
        }


def unread_file(values: Mapping[str, Any], configured: object) -> str | None:
    """Which file was not read, and the remedy; None if nothing looks like a mistake.

    Either the settings name a file that does not exist, or no file while there is a `.env` here.
    """
    named = values.get("_env_file", configured)
    if named is not None:
        files = [named] if isinstance(named, str | PathLike) else named
        missing = [each for each in files if not Path(each).expanduser().is_file()]
        return f"the file {missing[0]} does not exist in {Path.cwd()}" if missing else None
    if "_env_file" in values or not Path(FILE).is_file():
        return None
    remedy = f'write OIDCSettings(_env_file="{FILE}"), or in the shell: set -a; . ./{FILE}'
    return f"{FILE} is not read: {remedy}"


def misspelt(
    prefix: str, options: Collection[str], variables: Mapping[str, str | None]
) -> Mapping[str, str]:
    """The misspelled ones of `variables`, each with the likely correct name. Each pair is logged.

    Names of other libraries are logged too, with what they are called here, and so are an empty
    credential and a value in quotes. A name like `OIDC_PARTNERS_SCOPE` counts as a variable of
    another registration.
    """
    known = {prefix + option.upper() for option in options}
    others = tuple(f"_{option.upper()}" for option in options)
    found: dict[str, str] = {}
    credentials = {prefix + option.upper() for option in CREDENTIALS}
    for name, value in variables.items():
        variable = name.upper()
        if variable in credentials and not value:
            _logger.warning("%s is empty, which counts as not set", variable)
        elif variable in known and value and value[0] == value[-1] and value[0] in "\"'":
            _logger.warning("%s has quotes, which `docker --env-file` keeps: remove them", variable)
        if variable in known or not variable.startswith(prefix):
            continue
        meant = OTHER_NAMES.get(variable.removeprefix(prefix).lower())
        if meant in options:
            found[variable] = f"{prefix}{meant}".upper()
        elif meant is not None:
            _logger.warning("%s is not read: %s", variable, meant)
        elif not variable.endswith(others):
            for likely in get_close_matches(variable, known, 1, SIMILARITY):
                found[variable] = likely
    for variable, name in found.items():
        _logger.warning("%s is not read: is %s meant?", variable, name)
    return found
