"""When a machine starts by itself, and how its guest is reached."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field as ModelField

from examples.console.changes.change import ANY_TIME, Change, Panel, Parsed
from examples.console.events import person
from examples.console.fields import Field
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from generated_vmm.model import ApiModel

AGENT_PORT: Final = 1024


class Policy(ApiModel):
    """Members of a machine's definition that take effect at its next start or end."""

    autostart: bool = ModelField(default=False, description="After a restart of the host.")
    order: int = ModelField(default=0, description="Smaller numbers start first.")
    restart: Literal["never", "on-failure", "always"] = ModelField(
        default="never",
        description="On failure: after any end but exit status 0. Each pause is twice as long.",
    )
    agent: int | None = ModelField(
        default=None,
        ge=1,
        description="Vsock port of the agent in the guest, usually 1024; empty without one. It "
        "runs programs, moves files, and gives copies of the machine their own identity.",
    )


async def _store(monitor: HostedMonitor, parsed: Parsed) -> None:
    policy = Policy.model_validate(parsed[POLICY.key])
    await monitor.machine.change(by=person().name, **dict(policy))


POLICY = Section(
    key="policy",
    title="Start and restart",
    model=Policy,
    fields=(
        Field("autostart", "Start with the host", kind="flag"),
        Field("order", "Order", kind="number"),
        Field("restart", "Restart", "choice", choices=("never", "on-failure", "always")),
        Field("agent", "Agent", kind="number"),
    ),
    current=lambda definition, item: definition,
)
POLICIES = Panel(
    key="policies",
    changes=(
        Change(name="policy", when=ANY_TIME, sections=(POLICY,), of_hosted=_store, unfolded=True),
    ),
)
