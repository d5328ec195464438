"""Where the monitor's log, its metrics and the guest's serial console go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from examples.console.changes.change import AFTER_START, BEFORE_START, Change, Panel
from examples.console.fields import Field, bucket
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import AsyncVmmClient, Logger, Metrics, SerialDevice

LEVELS: Final = ("Info", "Error", "Warning", "Debug", "Trace", "Off")


def _read_here(machine: Machine) -> str:
    return "This console reads the metrics itself and draws them." if machine.is_hosted else ""


async def _of_log(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    told = machine.told.get(LOG.key)
    if not isinstance(told, Logger):
        return {}
    return {"Level": told.level or "Info", "File": told.log_path or "as before"}


async def _of_serial(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    told = machine.told.get(SERIAL.key)
    if not isinstance(told, SerialDevice):
        return {}
    limited = f"{told.rate_limiter.size} bytes" if told.rate_limiter else "none"
    return {"File": told.serial_out_path or "as before", "Limit": limited}


LOG = Section(
    key="logger",
    title="Log",
    model=Logger,
    fields=(
        Field("level", "Level", "choice", choices=LEVELS),
        Field("log_path", "File", places=("machine",)),
        Field("module", "Only of this module"),
        Field("show_level", "Say how important a line is", kind="flag"),
        Field("show_log_origin", "Say which source line wrote it", kind="flag"),
    ),
    send=lambda vm, fields: vm.logger.set(fields),
    current=lambda machine, item: machine.told.get("logger"),
    fixed={"show_level": False, "show_log_origin": False},
    about={"target file": "log_path"},
)
METRICS = Section(
    key="metrics",
    title="Metrics",
    model=Metrics,
    fields=(Field("metrics_path", "File"),),
    send=lambda vm, fields: vm.metrics.set(fields),
    about={"": "metrics_path"},
)
SERIAL = Section(
    key="serial",
    title="Serial console",
    model=SerialDevice,
    since=(1, 14),
    fields=(
        Field("serial_out_path", "File", places=("machine",)),
        *bucket("rate_limiter", "Limit of bytes written", "Bytes"),
    ),
    send=lambda vm, fields: vm.serial.set(fields),
    current=lambda machine, item: machine.told.get("serial"),
)
LOGS = Panel(
    key="logs", facts=_of_log, changes=(Change(name="logger", when=BEFORE_START, sections=(LOG,)),)
)
ALL_METRICS = Panel(
    key="all_metrics",
    changes=(
        Change(name="metrics", when=BEFORE_START, never=_read_here, sections=(METRICS,)),
        Change(
            name="flush",
            when=AFTER_START,
            never=_read_here,
            act=lambda monitor, parsed: monitor.control.action("FlushMetrics"),
        ),
    ),
)
SERIALS = Panel(
    key="serials",
    aside=True,
    facts=_of_serial,
    changes=(Change(name="serial", when=BEFORE_START, sections=(SERIAL,)),),
)
