"""Which variables of the environment belong to an instance, and which are misspelt."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches

PREFIX = "OIDC_"
DEFAULT_NAME = "oidc"
SIMILARITY = 0.85
"""How alike a variable and an option must be for the one to be meant as the other (0 to 1)."""

_logger = logging.getLogger("fastapi_oidc.configuration")


def prefix_of(name: object) -> str:
    """`OIDC_`, or `OIDC_PARTNERS_` for the instance `partners`, which reads no other variable."""
    if not isinstance(name, str) or name == DEFAULT_NAME:
        return PREFIX
    return f"{PREFIX}{name.upper().replace('-', '_')}_"


def misspelt(prefix: str, options: Collection[str]) -> Mapping[str, str]:
    """The variables that nothing reads, each with the one that is probably meant; both are logged.

    `OIDC_PARTNERS_SCOPE` is taken for a variable of another instance.
    """
    known = {prefix + option.upper() for option in options}
    others = tuple(f"_{option.upper()}" for option in options)
    found: dict[str, str] = {}
    for variable in map(str.upper, os.environ):
        if variable in known or not variable.startswith(prefix) or variable.endswith(others):
            continue
        if meant := get_close_matches(variable, known, n=1, cutoff=SIMILARITY):
            found[variable] = meant[0]
            _logger.warning("%s is not read: is %s meant?", variable, meant[0])
    return found
