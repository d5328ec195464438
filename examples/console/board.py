"""The rows of the list of machines: made once for all who see the same, sent after a change."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from examples.console.account import User
from examples.console.monitors import NO_ANSWER, Known, Machine, Monitor
from examples.console.pages import part
from examples.console.shown import LISTED, power_of
from generated_vmm.machines import Operation


@dataclass(frozen=True, slots=True)
class Text:
    """What was made of `source`; `number` counts the changes of all texts of a board."""

    source: object
    html: str
    number: int


@dataclass(frozen=True, slots=True)
class Row:
    """A machine, or one that is being made, as the list shows it. `key` is for scripts."""

    key: str
    html: Text
    figures: Text
    has_power: bool = False


class Board:
    """Makes rows, and counts their changes: a viewer gets those after the last response."""

    def __init__(self) -> None:
        self._mark, self._count = secrets.token_hex(4), 0

    @property
    def at(self) -> str:
        """What a viewer has who has everything."""
        return f"{self._mark}.{self._count}"

    def changes(self, rows: Sequence[Row], at: str) -> dict[str, object]:
        """The order of the rows, and what has changed since `at`; everything if that is unknown."""
        mark, _, number = at.partition(".")
        known = int(number) if mark == self._mark and number.isdecimal() else 0
        return {
            "at": self.at,
            "order": [row.key for row in rows],
            "rows": {row.key: row.html.html for row in rows if row.html.number > known},
            "figures": {row.key: row.figures.html for row in rows if row.figures.number > known},
        }

    def rows(
        self, found: Sequence[tuple[Monitor, Known]], being_made: Sequence[Operation], user: User
    ) -> list[Row]:
        """The rows of machines as they are known, and of operations, as a user sees them."""
        rows = [self._row(monitor, known, user) for monitor, known in found]
        nothing = Text(None, "", 0)
        for operation in being_made:
            html = part("being_made.html", operation=operation)
            rows.append(Row(operation.id, Text(None, html, self._count + 1), nothing))
        return rows

    def _row(self, monitor: Monitor, known: Known, user: User) -> Row:
        progress = monitor.progress if known.operation is not None else None
        may = user.may("operate", monitor.name)

        def made() -> str:
            forms = power_of(monitor, Machine(known.state or NO_ANSWER, monitor.definition), user)
            return part(
                "row.html",
                monitor=monitor,
                state=known.state,
                operation=known.operation,
                progress=progress,
                may_choose=may,
                power=[one for one in forms if one.change.name in LISTED],
            )

        html = self._text(monitor, ("row", may), (known, monitor.run, progress), made)
        figures = monitor.figures
        told = self._text(monitor, "figures", figures, lambda: figures)
        return Row(monitor.name, html, told, may)

    def _text(
        self, monitor: Monitor, name: object, source: object, make: Callable[[], str]
    ) -> Text:
        text = monitor.texts.get(name)
        if text is None or text.source != source:
            self._count += 1
            text = monitor.texts[name] = Text(source, make(), self._count)
        return text
