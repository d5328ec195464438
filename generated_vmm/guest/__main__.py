"""Prints the files that a guest needs, or writes them into the folder of its system.

python -m generated_vmm.guest            prints the agent
python -m generated_vmm.guest unit       its unit for systemd
python -m generated_vmm.guest init       an init for a system without systemd
python -m generated_vmm.guest --into DIR writes the agent, and the unit or the init, into a system
"""

import argparse
from pathlib import Path

HERE = Path(__file__).parent
FILES = {"agent": "agent.py", "unit": "guest-agent.service", "init": "init.sh"}
AGENT, UNIT = "usr/lib/guest-agent/agent.py", "etc/systemd/system/guest-agent.service"
WANTED = "etc/systemd/system/sysinit.target.wants/guest-agent.service"


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m generated_vmm.guest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", choices=sorted(FILES), default="agent")
    parser.add_argument("--into", type=Path, metavar="DIR", help="the folder of a guest's system")
    options = parser.parse_args(arguments)
    if options.into is None:
        print((HERE / FILES[options.file]).read_text(encoding="utf-8"), end="")
    else:
        install(options.into)


def install(system: Path) -> None:
    """Writes the agent, and the unit if the system has systemd, else the init."""
    write(system / AGENT, "agent", 0o755)
    if (system / "usr/lib/systemd/systemd").exists() or (system / "lib/systemd/systemd").exists():
        write(system / UNIT, "unit", 0o644)
        link = system / WANTED
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(f"/{UNIT}")
    else:
        write(system / "sbin/init", "init", 0o755)


def write(path: Path, name: str, mode: int) -> None:
    """Writes one of the files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text((HERE / FILES[name]).read_text(encoding="utf-8"), encoding="utf-8")
    path.chmod(mode)


if __name__ == "__main__":
    main()
