#!/usr/bin/env bash
# Runs the stale lane alone: the workloads of the crash lane with an old view of each kind. The argument is "all", or one case or the
# beginning of some as workload[/resource[/mode]]. Prints each case as it begins, then how many there were, what failed and the time. The
# whole output, with the operators' logs of what failed, is in dist/stale.log.
set -euo pipefail
cd "$(dirname "$0")/.."

export DROVER_STALE="${1:?usage: hack/stale.sh all|WORKLOAD[/RESOURCE[/MODE]]}"
log="dist/stale.log"
mkdir -p dist
set +e
go test -race -timeout 300m -p 1 -count=1 -v -run '^TestStale$' ./test/faults ./test/upgrade 2>&1 | tee "$log" |
	grep --line-buffered -aE '^=== RUN .*/.*/|^stale lane|^  .*; alone: '
code="${PIPESTATUS[0]}"
set -e
echo
grep -aE '^stale lane|^  .*; alone: ' "$log" || true
awk -v code="$code" -v seconds="$SECONDS" '
	/^stale lane/ { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^cases/) cases += $i; if ($(i + 1) ~ /^findings/) findings += $i } }
	END { printf "stale lane: %d cases, %d findings, %d minutes\n", cases, findings, int((seconds + 59) / 60); exit code }' "$log"
