"""What a picture shows, and the picture: an SVG and, beside it, its figures as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from matplotlib import rc_context
from matplotlib.figure import Figure

from tools.benchmarks import figures
from tools.benchmarks.targets import Target

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

STYLE: dict[RcKeyType, object] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "benchmarks",  # the same figures make the same file
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
}
INCHES = (8.0, 4.6)
NOTE_CHARACTERS = 150
OURS = ("#0b5fa5", "#2a9d8f", "#6a4c93", "#1d7a3e", "#3d8bd9")
PEERS = ("#c2571a", "#a8324a", "#8d6e1f", "#7f7f7f", "#b07aa1", "#404040")

Point: TypeAlias = tuple[float, float]
Scale: TypeAlias = Literal["linear", "log"]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines over a quantity; those of ours begin with "ours". `note` says how it was measured.

    What else the same measurement found, by its name and unit, is `beside` them, and not drawn.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[Point]]
    note: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    beside: Mapping[str, Mapping[str, Sequence[Point]]] = field(default_factory=dict)
    targets: Sequence[Target] = ()

    def draw(self, figure: Figure) -> None:
        """Puts the lines on one pair of axes, with a legend."""
        axes = figure.subplots()
        ours, peers = iter(OURS), iter(PEERS)
        highest_first = sorted(self.lines.items(), key=lambda line: -line[1][-1][1])
        for name, points in highest_first:
            is_ours = name.startswith("ours")
            xs, ys = zip(*points, strict=True)
            axes.plot(
                xs,
                ys,
                label=name,
                color=next(ours if is_ours else peers),
                linewidth=2 if is_ours else 1.2,
                linestyle="-" if is_ours else "--",
                marker="o" if is_ours else "s",
                markersize=4,
            )
        axes.set(xlabel=self.x, ylabel=self.y, xscale=self.x_scale, yscale=self.y_scale)
        if self.y_scale == "linear":
            axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Bars made of parts that lie one after the other.

    What was measured of the same things, by its name and unit, is `beside` them, and not drawn.
    """

    title: str
    x: str
    bars: Mapping[str, Mapping[str, float]]
    note: str
    beside: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    targets: Sequence[Target] = ()

    def draw(self, figure: Figure) -> None:
        """Puts the bars on one pair of axes, the first one on top, with a legend."""
        axes = figure.subplots()
        names = list(self.bars)
        parts = list(dict.fromkeys(part for bar in self.bars.values() for part in bar))
        ends = [0.0] * len(names)
        for part, color in zip(parts, (*OURS, *PEERS), strict=False):
            widths = [self.bars[name].get(part, 0.0) for name in names]
            axes.barh(names, widths, left=ends, label=part, color=color, height=0.6)
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        for row, end in enumerate(ends):
            axes.text(end, row, f" {end:.4g}", va="center")
        axes.invert_yaxis()
        axes.margins(x=0.1)
        axes.set(xlabel=self.x)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


@dataclass(frozen=True, kw_only=True)
class Panels:
    """Several quantities of the same things side by side: each panel has a bar for each thing.

    What else was measured of them, by its name and unit, is `beside` them, and not drawn.
    """

    title: str
    panels: Mapping[str, Mapping[str, float]]
    note: str
    beside: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    targets: Sequence[Target] = ()

    def draw(self, figure: Figure) -> None:
        """Puts the panels in a row; the names stand at the first one."""
        row = figure.subplots(1, len(self.panels), sharey=True, squeeze=False)[0]
        for axes, (quantity, bars) in zip(row, self.panels.items(), strict=True):
            colors = [OURS[0] if name.startswith("ours") else PEERS[0] for name in bars]
            axes.barh(list(bars), list(bars.values()), color=colors, height=0.6)
            for place, value in enumerate(bars.values()):
                axes.text(value, place, f" {_readable(value)}", va="center", fontsize=8)
            axes.set_xlabel(quantity)
            axes.margins(x=0.2)
        row[0].invert_yaxis()


def _readable(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


Picture: TypeAlias = Lines | Bars | Panels


def keep(name: str, picture: Picture, folder: Path, machine: str) -> None:
    """Writes NAME.svg and NAME.json into `folder`; `machine` says where and when."""
    with rc_context(STYLE):
        figure = Figure(figsize=INCHES)
        picture.draw(figure)
        figure.suptitle(picture.title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        small = "\n".join([*textwrap.wrap(picture.note, NOTE_CHARACTERS), machine])
        figure.text(0.01, 0.01, small, fontsize=7, color="#555555")
        figure.tight_layout(rect=(0, 0.1, 1, 1))
        path = folder / f"{name}.svg"
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    # No line of the repository ends with a space.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    figures.keep(name, asdict(picture), picture.targets, machine, folder)
