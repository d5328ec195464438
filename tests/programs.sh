#!/usr/bin/env bash
# Installs the programs that tests need and that are no Python packages, where apt-get may do so;
# with arguments those alone. Otherwise says which is missing, what needs it and how to get it; with
# CI=true that is an error.
set -eu

# Servers may be where the path of ordinary users does not lead: examples/fleet/program.py.
PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin"

# tests/chromium.py says what it is for.
chromium=${CHROMIUM:-chromium-headless-shell}

programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(node redis-server postgresql nginx "$chromium")

missing=()

node_is_recent() {
    command -v node >/dev/null && command -v npm >/dev/null &&
        node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

has() {
    case "$1" in
    node) node_is_recent ;;
    # Debian has the programs of each version outside every path: tools/benchmarks/postgres_server.py.
    postgresql) compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

packages_of() {
    case "$1" in
    node) echo "nodejs npm" ;;
    *) echo "$1" ;;
    esac
}

for program in "${programs[@]}"; do
    has "$program" || missing+=("$program")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "Installing: ${missing[*]}"
    # RUNLEVEL=1: what is installed is not started as a service of the system.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    apt-get update -qq || true
    for program in "${missing[@]}"; do
        # shellcheck disable=SC2046 # several packages on purpose
        apt-get install -y -qq --no-install-recommends $(packages_of "$program") >/dev/null || true
    done
fi

status=0
for program in "${programs[@]}"; do
    has "$program" && continue
    status=1
    case "$program" in
    node) echo "Missing: Node.js 20.19 or newer with npm. Needed by tests/oidc/real_op, tests/browser. Install it from your system's packages (nodejs, npm)." ;;
    redis-server) echo "Missing: redis-server. Needed by tests/oidc/session, the fleet and the refresh tests over several processes. Install the package redis-server (or redis)." ;;
    postgresql) echo "Missing: PostgreSQL (initdb, postgres). Needed by tests/oidc/session and tests/oidc/flows. Install the package postgresql." ;;
    nginx) echo "Missing: nginx. Needed by the fleet, its load and their tests. Install the package nginx." ;;
    "$chromium") echo "Missing: $chromium. Needed by tests/browser, tests/console/in_chromium and tests/fleet. Install the package $chromium, or name another Chromium: CHROMIUM=chromium." ;;
    chromium) echo "Missing: chromium. Needed by the screenshots. Install the package chromium." ;;
    esac
done
if [ "${CI:-}" = "true" ]; then exit $status; fi
