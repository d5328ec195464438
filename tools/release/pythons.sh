#!/usr/bin/env bash
# pythons.sh "3.11 3.12 ..." PYTEST_ARGUMENT...: runs pytest with each of these Pythons that is found here, as `python3.x` on the
# path or among pyenv's versions. Each has an environment of its own in build/pythons. Fails when one of them fails.
set -uo pipefail
cd "$(dirname "$0")/../.."

interpreter() {
    local candidate
    for candidate in "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        # A shim of pyenv exists for versions that are not chosen, and fails.
        if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

run() {
    local folder="build/pythons/$1" python
    python="$(interpreter "$1")" || { echo "not found"; return 2; }
    "$python" -m venv "$folder" >&2 || return 1
    "$folder/bin/python" -m pip install --quiet --constraint constraints.txt pip >&2 || return 1
    "$folder/bin/python" -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
        --editable ./generated_vmm --editable '.[broker,network,redis,sql,testing]' --group dev --group bench >&2 || return 1
    "$folder/bin/python" -m pytest -p no:cacheprovider "${arguments[@]}" >&2 || return 1
    "$python" --version
}

versions="$1"
shift
arguments=("$@")
status=0
results=()
for version in $versions; do
    result="$(run "$version")"
    case $? in
    0) results+=("$version passed ($result)") ;;
    2) results+=("$version not found") ;;
    *) results+=("$version FAILED") && status=1 ;;
    esac
done
printf '%s\n' "${results[@]}"
exit $status
