#!/usr/bin/env bash
# Tests and builds the page of kubectl drover ui: hack/ui.sh [test] [build]. It installs the packages that ui/package-lock.json pins, without their
# scripts, if they are not there.
set -euo pipefail
cd "$(dirname "$0")/../ui"

lock="$(sha256sum <package-lock.json)"
if [[ "$(cat node_modules/.lock 2>/dev/null)" != "$lock" ]]; then
	npm ci --ignore-scripts --no-audit --no-fund
	echo "$lock" >node_modules/.lock
fi
for target in "$@"; do
	npm run --silent "$target"
done
