#!/usr/bin/env bash
# Builds bin/drover-sandbox, and with the argument node bin/drover-sandbox-node, where their sources have changed: see hack/build.sh.
set -euo pipefail
exec "$(dirname "$0")/build.sh" "${1:-sandbox}"
