"""`python -m tools.release.audit`: whether the pinned dependencies have a known vulnerability.

pip-audit asks the OSV service. A finding is fixed, or accepted in SECURITY.md with the reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).parents[2]
SECTION = "Accepted findings"
IDENTIFIER = re.compile(r"\b(?:CVE-\d{4}-\d+|GHSA(?:-\w{4}){3}|PYSEC-\d{4}-\d+)\b")
COMMAND = [
    *(sys.executable, "-m", "pip_audit", "--vulnerability-service=osv", "--format=json"),
    *("--no-deps", "--disable-pip", "--progress-spinner=off", "--timeout=15"),
]


def main(options: Sequence[str] = (), requirements: Path = REPOSITORY / "constraints.txt") -> int:
    """Print what is found. Returns 1 for a finding, and where CI=true for an audit not done."""
    accepted = accepted_in((REPOSITORY / "SECURITY.md").read_text())
    ignored = [f"--ignore-vuln={identifier}" for identifier in accepted]
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "audit.json"
        command = [*COMMAND, f"--requirement={requirements}", f"--output={answer}"]
        result = subprocess.run(
            [*command, *ignored, *options], capture_output=True, text=True, check=False
        )
        # pip-audit writes its answer when it has one, and exits with 1 for a finding and an error.
        found = list(findings(answer.read_text())) if answer.exists() else None
    if found is None:
        return _not_done(result.stderr)
    print(*found, f"{len(found)} known vulnerabilities in {requirements.name}", sep="\n")
    print(f"Accepted in SECURITY.md: {', '.join(accepted) or 'none'}")
    return 1 if found else 0


def accepted_in(security: str) -> list[str]:
    """The identifiers of the accepted findings in SECURITY.md."""
    section = security.partition(f"## {SECTION}\n")[2].partition("\n## ")[0]
    return sorted(set(IDENTIFIER.findall(section)))


def findings(answer: str) -> Iterator[str]:
    """One line for each vulnerability in pip-audit's JSON."""
    for package in json.loads(answer)["dependencies"]:
        for found in package.get("vulns", []):
            names = " ".join(sorted({found["id"], *found["aliases"]}))
            fixed = ", ".join(found["fix_versions"]) or "no version"
            yield f"{package['name']} {package['version']}: {names}, fixed in {fixed}"


def _not_done(log: str) -> int:
    cause = (log.strip().splitlines() or ["no answer"])[-1]
    print(f"NOT AUDITED: the service cannot be asked. {cause}", file=sys.stderr)
    return 1 if os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
