"""One section in this process: `tools.benchmarks.section NAME` prints its figures as JSON."""

from __future__ import annotations

import importlib
import logging
import sys

if __name__ == "__main__":
    logging.disable()  # what the applications log is not measured
    section = importlib.import_module(f"tools.benchmarks.{sys.argv[1]}")
    for figure in section.figures():
        print(figure.to_json(), flush=True)
