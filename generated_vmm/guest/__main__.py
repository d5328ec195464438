"""Prints what a guest's system needs: the agent, a unit of systemd, or an init without systemd."""

import argparse
from pathlib import Path

FILES = {"agent": "agent.py", "unit": "guest-agent.service", "init": "init.sh"}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m generated_vmm.guest", description=__doc__)
    parser.add_argument("file", nargs="?", choices=FILES, default="agent")
    name = FILES[parser.parse_args().file]
    print(Path(__file__).with_name(name).read_text(encoding="utf-8"), end="")
