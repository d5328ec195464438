"""The environment variables of a registration, and warnings about misspelled ones."""

from __future__ import annotations

import logging
from typing import Any

from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

from fastapi_oidc.peer_names import PEER_NAMES, hint_for

PREFIX = "OIDC_"
DEFAULT_NAME = "oidc"
SIMILARITY = 0.85
"""The similarity (0 to 1) from which an unknown variable counts as a misspelled option."""

_logger = logging.getLogger("fastapi_oidc.configuration")


def prefix_of(name: object) -> str:
    """`OIDC_`, or `OIDC_PARTNERS_` for the registration `partners`, which reads no others."""
    if not isinstance(name, str) or name == DEFAULT_NAME:
        return PREFIX
    return f"{PREFIX}{name.upper().replace('-', '_')}_"


class FileOfVariables(DotEnvSettingsSource):
    """A `.env` file, which may also have variables of other programs and registrations."""

    def __call__(self) -> dict[str, Any]:
        """The values of options in the file."""
        return EnvSettingsSource.__call__(self)


def report_unread(source: EnvSettingsSource) -> None:
    """Log variables that are no options, with the likely option, and values in quotes.

    The likely option is also that of a name in another library. A name like `OIDC_PARTNERS_SCOPE`
    counts as a variable of another registration.
    """
    options = source.settings_cls.model_fields
    others = tuple(f"_{option}" for option in options)
    for name, value in source.env_vars.items():
        variable = name.upper()
        option = variable.removeprefix(source.env_prefix).lower()
        if not variable.startswith(source.env_prefix):
            continue
        if option not in options and (option in PEER_NAMES or not option.endswith(others)):
            if hint := hint_for(option, options, SIMILARITY):
                _logger.warning("%s is not read: %s", variable, hint)
        elif option in options and value and value[0] == value[-1] and value[0] in "\"'":
            _logger.warning("%s has quotes, which `docker --env-file` keeps: remove them", variable)
