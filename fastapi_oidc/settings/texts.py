"""What an option can be written as: lists, objects and keys as texts of the environment."""

from __future__ import annotations

import json

from pydantic import SecretStr


def words(value: object) -> object:
    """A text is a JSON list, or words with spaces between them; anything else stays as it is."""
    if not isinstance(value, str):
        return value
    return _json(value) if value.lstrip().startswith("[") else tuple(value.split())


def secrets(value: object) -> object:
    """A text is a JSON list, or one secret."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        return _json(value)
    return (value,) if isinstance(value, str | SecretStr) else value


def members(value: object) -> object:
    """A text is a JSON object."""
    return _json(value) if isinstance(value, str) else value


def pem_or_jwk(text: str | None) -> str | dict[str, object] | None:
    """A JWK comes as JSON text; text that is neither is refused later as no key."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        jwk: dict[str, object] = json.loads(text)
    except ValueError:
        return text
    return jwk


def revealed(secret: str | SecretStr | None) -> str | None:
    """The text of a secret, for the one who needs it."""
    return secret.get_secret_value() if isinstance(secret, SecretStr) else secret


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        raise ValueError("begins like JSON and is none") from None
    return tuple(value) if isinstance(value, list) else value
