"""Detects what is not installed, and another distribution that has written its files here.

PyPI has a `fastapi-oidc` by another author, which installs a package `fastapi_oidc` too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

OTHER: Final = "fastapi-oidc"
REMEDY: Final = (
    f"the distribution {OTHER!r} has the import name fastapi_oidc too, and its files are in the "
    "folder of 'fastapi-oidc-vmm'. Remove both, and install ours again: "
    f"pip uninstall {OTHER} fastapi-oidc-vmm, then pip install fastapi-oidc-vmm"
)


def is_mixed() -> bool:
    """Whether this folder has files of the other distribution."""
    try:
        theirs = distribution(OTHER).locate_file("fastapi_oidc")
    except PackageNotFoundError:
        return False
    return Path(str(theirs)).resolve() == Path(__file__).resolve().parent


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Tell what to install if an import of the block fails; `what` needs the extra `name`."""
    try:
        yield
    except ModuleNotFoundError as missing:
        explanation = f"{what}: pip install 'fastapi-oidc-vmm[{name}]'"
        raise ModuleNotFoundError(explanation, name=missing.name) from None
