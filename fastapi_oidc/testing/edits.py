"""Changing what the provider says, so that a test can see its Relying Party refuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from pydantic import JsonValue

Message: TypeAlias = Literal[
    "metadata",
    "jwks",
    "authorization_response",
    "token_response",
    "id_token_header",
    "id_token",
    "userinfo",
    "logout_token_header",
    "logout_token",
]
Members: TypeAlias = dict[str, JsonValue]
Edit: TypeAlias = Callable[[Members], Members]


class Edits:
    """At most one edit for each kind of message, applied just before it is signed or sent."""

    def __init__(self) -> None:
        self._edits: dict[Message, Edit] = {}

    def put(self, message: Message, edit: Edit) -> None:
        """Applies `edit` to every such message from now on."""
        self._edits[message] = edit

    def clear(self) -> None:
        """Lets every message through as it is."""
        self._edits.clear()

    def edited(self, message: Message, members: Members) -> Members:
        """The members as they are to be sent."""
        edit = self._edits.get(message)
        return edit(members) if edit else members
