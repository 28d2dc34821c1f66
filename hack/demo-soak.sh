#!/usr/bin/env bash
# Runs the demo over and over: the first half of DEMO_SOAK_RUNS (default 20) on the machine as it is, the second half beside processes that keep
# every core busy. Each run's log is kept if it fails, with those of the operator and the control plane; the exit code is 1 if any did.
set -euo pipefail
cd "$(dirname "$0")/.."

runs="${DEMO_SOAK_RUNS:-20}"
if ! [[ "$runs" =~ ^[1-9][0-9]*$ ]]; then
	echo "demo-soak: DEMO_SOAK_RUNS is '$runs', want a number of runs" >&2
	exit 2
fi
logs="$(mktemp -d -t drover-demo-soak-XXXXXX)"
busy=()
failed=()

# rest ends the processes that keep the cores busy.
rest() {
	((${#busy[@]} == 0)) || kill "${busy[@]}" 2>/dev/null || true
	busy=()
}
trap rest EXIT
trap 'exit 130' INT TERM

for run in $(seq "$runs"); do
	load="on the machine as it is"
	if ((run > runs / 2)); then
		if ((${#busy[@]} == 0)); then
			for _ in $(seq "$(nproc)"); do
				(while :; do :; done) &
				busy+=("$!")
			done
		fi
		load="beside $(nproc) busy processes"
	fi
	begun=$SECONDS
	if DEMO_LOGS="$logs/$run" hack/demo.sh >"$logs/$run.log" 2>&1; then
		echo "demo-soak: run $run of $runs, $load: passed in $((SECONDS - begun)) s"
		rm -rf "${logs:?}/$run" "$logs/$run.log"
	else
		failed+=("$run")
		echo "demo-soak: run $run of $runs, $load: FAILED after $((SECONDS - begun)) s; logs: $logs/$run.log and $logs/$run/"
		grep -a '^.\[1m==' "$logs/$run.log" | tail -n 1 || true
		tail -n 5 "$logs/$run.log"
	fi
done
if ((${#failed[@]} > 0)); then
	echo "demo-soak: ${#failed[@]} of $runs runs failed: ${failed[*]}" >&2
	exit 1
fi
rmdir "$logs"
echo "demo-soak: all $runs runs passed"
