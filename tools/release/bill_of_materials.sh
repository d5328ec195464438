#!/usr/bin/env bash
# bill_of_materials.sh ENVIRONMENT FILE: every distribution of a virtual environment, as CycloneDX.
set -euo pipefail
cd "$(dirname "$0")/../.."
"${PYTHON:-.venv/bin/python}" -m cyclonedx_py environment --pyproject pyproject.toml --mc-type library \
    --output-reproducible --output-file "$2" "$1/bin/python"
