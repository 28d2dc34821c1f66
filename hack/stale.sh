#!/usr/bin/env bash
# Runs the stale lane alone: the workloads of the crash lane with an old view of each kind. The argument is "all", or some of
# workload[/resource[/mode]] with commas between. A name without a case is an error, which says what names there are. Prints each case as it
# begins, then how many there were, what failed and the time. The whole output, with the operators' logs of what failed, is in dist/stale.log.
set -euo pipefail
cd "$(dirname "$0")/.."

export DROVER_STALE="${1:?usage: hack/stale.sh all|WORKLOAD[/RESOURCE[/MODE]]}"
log="dist/stale.log"
mkdir -p dist
set +e
go test -timeout 300m -p 1 -count=1 -v -run '^TestStale$' ./test/e2e ./test/upgrade 2>&1 | tee "$log" |
	grep --line-buffered -aE '^=== RUN .*/.*/|^stale lane|^  .*; alone: '
code="${PIPESTATUS[0]}"
set -e
echo
grep -aE '^stale lane|^  .*; alone: ' "$log" || true
awk -v code="$code" -v seconds="$SECONDS" '
	/^stale lane .* cases, / {
		lanes++
		for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^cases/) cases += $i; if ($(i + 1) ~ /^findings/) findings += $i }
	}
	# Each package has workloads of its own: a path is wrong when none of them has a case for it.
	/^stale lane .*: no case is / {
		path = $0
		sub(/.*: no case is /, "", path)
		sub(/;.*/, "", path)
		missing[path]++
	}
	END {
		printf "stale lane: %d cases, %d findings, %d minutes\n", cases, findings, int((seconds + 59) / 60)
		for (path in missing) {
			if (missing[path] < lanes) continue
			print "stale: " path " names no case; the names are above" >"/dev/stderr"
			if (code == 0) code = 1
		}
		if (cases == 0 && code == 0) { print "stale: no case was run" >"/dev/stderr"; code = 1 }
		exit code
	}' "$log"
