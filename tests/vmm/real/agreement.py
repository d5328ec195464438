"""How far two monitors agree on a walk of random calls, with the smallest example of each gap."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from generated_vmm.testing.description import Json
from tests.vmm.real.calls import Drawn, draw_episode
from tests.vmm.real.monitors import Asked, Programs, real_monitor, simulated_monitor
from tests.vmm.simulator.caller import Reply

EPISODE = 25
PCI_SHARE = 0.25
SHRINKS = 40
CONFIG = Drawn("GET", "/vm/config")
PLACE = re.compile(r" at (line \d+ column \d+|`[^`]*`)\.?$")
DETAIL = re.compile(r"[`\"'\[({0-9/]")


@dataclass(frozen=True)
class Gap:
    """What two monitors said that is not the same."""

    kind: str
    call: Drawn
    real: str
    simulated: str

    @property
    def key(self) -> tuple[str, ...]:
        """Gaps with the same key are one."""
        parts = self.call.path.split("/")
        return self.kind, self.call.method, parts[1], self.real[:60], self.simulated[:60]


@dataclass
class Tally:
    """How often each kind of answer was compared and agreed, and the gaps with an example each."""

    compared: dict[str, int] = field(default_factory=dict)
    agreed: dict[str, int] = field(default_factory=dict)
    gaps: dict[tuple[str, ...], tuple[Gap, list[Drawn]]] = field(default_factory=dict)

    def add(self, kind: str, gap: Gap | None, walked: Sequence[Drawn]) -> None:
        """Count one comparison; of equal gaps the one with the shortest walk is kept."""
        self.compared[kind] = self.compared.get(kind, 0) + 1
        self.agreed[kind] = self.agreed.get(kind, 0) + (gap is None)
        if gap is None:
            return
        known = self.gaps.get(gap.key)
        if known is None or len(walked) < len(known[1]):
            self.gaps[gap.key] = gap, list(walked)

    def share(self, kind: str) -> float:
        """Per cent of the comparisons of one kind that agreed."""
        return 100 * self.agreed.get(kind, 0) / max(1, self.compared.get(kind, 0))


def walk_at_random(programs: Programs, seed: int, calls: int, tally: Tally) -> None:
    """Compare so many calls, with fresh monitors for each episode."""
    source = random.Random(seed)  # the same walk for the same seed
    done = 0
    while done < calls:
        pci = source.random() < PCI_SHARE
        episode = draw_episode(source, min(EPISODE, calls - done))
        found = list(compare(programs, episode, pci=pci))
        for position, kind, gap in found:
            example = episode[: position + 1]
            if gap is not None and gap.key not in tally.gaps:
                example = shrunk(programs, example, gap, pci=pci)
            tally.add(kind, gap, example)
        done += len(episode)


def compare(
    programs: Programs, episode: Sequence[Drawn], *, pci: bool
) -> Iterator[tuple[int, str, Gap | None]]:
    """Statuses, first words of refusals, and the configuration after each call."""
    with real_monitor(programs, pci=pci) as real, simulated_monitor(programs, pci=pci) as simulated:
        for position, call in enumerate(episode):
            theirs, ours = real(call), simulated(call)
            yield position, *_of_statuses(call, theirs, ours)
            if theirs.status == ours.status and theirs.status >= 400:
                yield position, *_of_words(call, theirs, ours)
            yield position, *_of_configurations(call, real, simulated)


def shrunk(programs: Programs, episode: list[Drawn], gap: Gap, *, pci: bool) -> list[Drawn]:
    """The episode without the calls that the gap does not need."""
    kept = episode
    for at in range(len(episode) - 2, max(-1, len(episode) - 2 - SHRINKS), -1):
        shorter = kept[:at] + kept[at + 1 :]
        gaps = [one for _, _, one in compare(programs, shorter, pci=pci) if one is not None]
        if any(one.key == gap.key for one in gaps):
            kept = shorter
    return kept


def _of_statuses(call: Drawn, theirs: Reply, ours: Reply) -> tuple[str, Gap | None]:
    same = theirs.status == ours.status
    said = [f"{one.status} {fault_of(one)}" for one in (theirs, ours)]
    return "statuses", None if same else Gap("statuses", call, *said)


def _of_words(call: Drawn, theirs: Reply, ours: Reply) -> tuple[str, Gap | None]:
    said = [first_words(fault_of(one)) for one in (theirs, ours)]
    return "first words", None if said[0] == said[1] else Gap("first words", call, *said)


def _of_configurations(call: Drawn, real: Asked, simulated: Asked) -> tuple[str, Gap | None]:
    shown = [_comparable(one) for one in (real, simulated)]
    if shown[0] == shown[1]:
        return "configurations", None
    members = {key for key in {*shown[0], *shown[1]} if shown[0].get(key) != shown[1].get(key)}
    said = [json.dumps({key: one.get(key) for key in sorted(members)}) for one in shown]
    return "configurations", Gap("configurations", call, *said)


def _comparable(asked: Asked) -> dict[str, Json]:
    """The configuration with names for what differs between the two hosts.

    A started monitor shows its devices in an order of no meaning.
    """
    config = asked(CONFIG).json
    state = asked(Drawn("GET", "/")).json
    if not isinstance(config, dict) or not isinstance(state, dict):
        return {}
    text = json.dumps(config, sort_keys=True)
    for name, value in asked.names.items():
        text = text.replace(value, f"{{{name}}}") if name != "folder" else text
    text = text.replace(asked.names["folder"], "{folder}")
    named: dict[str, Json] = json.loads(text)
    if state["state"] != "Not started":
        for shown in named.values():
            if isinstance(shown, list):
                shown.sort(key=str)
    return named


def fault_of(reply: Reply) -> str:
    """The text of a refusal, by the monitor or its HTTP layer; empty when there is none."""
    if not isinstance(reply.json, dict):
        return ""
    return str(reply.json.get("fault_message", reply.json.get("error", "")))


def first_words(fault: str) -> str:
    """A fault up to the first detail, which is quoted, bracketed, a number or a path."""
    return DETAIL.split(PLACE.sub("", fault), maxsplit=1)[0].strip(" .")
