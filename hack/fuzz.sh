#!/usr/bin/env bash
# Runs every fuzz target of the module, one after another, each for FUZZ_TIME (default 60s). A first argument narrows it to targets
# whose name matches that regular expression. A failing input is kept by Go under testdata/fuzz of its package: commit it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${FUZZ_TIME:-60s}
wanted=${1:-.}
ran=0

# Only packages that hold a target are built; go test -list then says which targets there are.
while read -r folder; do
	grep -qs '^func Fuzz' "$folder"/*_test.go || continue
	package=.${folder#"$PWD"}
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		[[ $target =~ $wanted ]] || continue
		echo "fuzzing $package $target for $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
		ran=$((ran + 1))
	done
done < <(go list -f '{{.Dir}}' ./...)

if ((ran == 0)); then
	echo "no fuzz target matches $wanted" >&2
	exit 1
fi
echo "done: $ran targets, nothing found"
