#!/usr/bin/env bash
# Builds the operator as it was at an earlier commit into bin/cache, from the history of the repository: tests upgrade from it, and roll back to it
# (test/harness/earlier.go). Where the history is not there it builds nothing, and those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

commit=c72f38cc84275bbe445abe2e42c8c7fa0aa63269
short="${commit:0:12}"
program="$PWD/bin/cache/drover-$short"
[[ ! -x "$program" ]] || exit 0
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
	echo "earlier: the history of the repository is not here: the tests that need the operator of $short are skipped" >&2
	exit 0
fi
echo "earlier: building the operator of $short (a minute or two the first time)" >&2
mkdir -p bin/cache
# Go does not look into folders that begin with a dot.
work="$(mktemp -d "$PWD/bin/.earlier-XXXXXX")"
trap 'rm -rf "$work"' EXIT
git archive "$commit" | tar -x -C "$work"
(cd "$work" && CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -o drover ./cmd/drover)
mv "$work/drover" "$program"
