"""Start, pause, resume, and the keys that ask the guest to shut down."""

from __future__ import annotations

from examples.console.changes.change import BEFORE_START, Change

POWER_CHANGES = (
    Change(
        name="start",
        tab="overview",
        button="Start",
        working="Starting…",
        done="The machine is running.",
        verb="start a machine",
        when=BEFORE_START,
        act=lambda vm: vm.action("InstanceStart"),
    ),
    Change(
        name="pause",
        tab="overview",
        button="Pause",
        working="Pausing…",
        done="The machine is paused.",
        verb="pause a machine",
        when=frozenset({"Running"}),
        act=lambda vm: vm.pause(),
    ),
    Change(
        name="resume",
        tab="overview",
        button="Resume",
        working="Resuming…",
        done="The machine is running again.",
        verb="resume a machine",
        when=frozenset({"Paused"}),
        act=lambda vm: vm.resume(),
    ),
    Change(
        name="ctrl_alt_del",
        tab="overview",
        button="Ctrl+Alt+Del",
        working="Sending…",
        done="The guest was sent Ctrl+Alt+Del. When it shuts down, its monitor ends.",
        verb="shut a machine down",
        when=frozenset({"Running"}),
        confirm="Send Ctrl+Alt+Del? Most guests shut down.",
        act=lambda vm: vm.action("SendCtrlAltDel"),
    ),
)
