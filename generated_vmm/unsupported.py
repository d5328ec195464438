"""Names for members that the client's monitor version lacks: using one raises an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import ValidationInfo, model_validator

from generated_vmm.errors import VmmError
from generated_vmm.model import ApiModel


def unsupported(what: str, since: str | None, version: str) -> VmmError:
    """The error for using something that the monitor of `version` lacks."""
    needed = f"monitor {since} or newer" if since else "a newer monitor"
    return VmmError(f"{what} needs {needed}; this client is made for {version}")


class Unsupported(ApiModel):
    """Base of models that the monitor lacks: creating one raises `VmmError`."""

    since: ClassVar[str | None]
    version: ClassVar[str]

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, value: object, handler: object) -> Self:
        raise unsupported(cls.__name__, cls.since, cls.version)

    def to_json(self) -> bytes:
        """Raises `VmmError`."""
        raise unsupported(type(self).__name__, self.since, self.version)


class PartlySupported(ApiModel):
    """Base of models with fields of newer monitors: None, and a `VmmError` if one is passed."""

    later_fields: ClassVar[Mapping[str, str]]
    """Each field, with the version that added it."""
    made_for: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, value: object, info: ValidationInfo) -> object:
        if info.mode == "python" and isinstance(value, Mapping):  # a response may have any field
            for name in cls.later_fields.keys() & value.keys():
                what = f"{cls.__name__}.{name}"
                raise unsupported(what, cls.later_fields[name], cls.made_for)
        return value
