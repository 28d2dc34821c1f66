#!/usr/bin/env bash
# Runs the tests on real kubelets and real containers. Without root or the packages it says what is missing, and fails: make test-all
# leaves them out in that case, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."

if ((EUID == 0)); then
	hack/install-node-packages.sh
fi
DROVER_REAL_NODES=required go test -timeout 30m -count=1 -v ./test/node/...
