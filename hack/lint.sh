#!/usr/bin/env bash
# Runs golangci-lint, at the version that tools/go.mod pins, on the root module, and on the module sandbox with those linters
# alone that read the source: the others would compile Kubernetes first, which takes ten minutes. Arguments go to both runs,
# for example --fix. The linter is built once, into bin/cache, which takes some minutes; with --build-only that is all.
set -euo pipefail
cd "$(dirname "$0")/.."

package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint
version="$(awk '$1 == "github.com/golangci/golangci-lint/v2" { print $2; exit }' tools/go.mod)"
# One that was built with an older Go refuses to check the code of a newer one.
linter="$PWD/bin/cache/golangci-lint-${version}-$(go env GOVERSION)-$(sha256sum <tools/go.sum | cut -c1-10)"
source_only=cyclop,funlen,godot,lll,misspell,nolintlint,revive

# progress prints every 15 seconds how many packages the build has compiled, until it is killed.
progress() {
	local log="$1" total="$2" begin="$SECONDS"
	while sleep 15; do
		echo "lint: $(wc -l <"$log") packages compiled in $((SECONDS - begin)) s, of at most ${total}" >&2
	done
}

# build makes the linter.
build() {
	local work reporter total status=0
	mkdir -p bin/cache
	work="$(mktemp -d "$PWD/bin/cache/.lint-XXXXXX")"
	echo "lint: building golangci-lint ${version}; that takes some minutes, once" >&2
	total="$(cd tools && go list -deps "$package" | wc -l)"
	: >"$work/log"
	progress "$work/log" "$total" &
	reporter="$!"
	(cd tools && CGO_ENABLED=0 go build -v -trimpath -ldflags "-s -w -X main.version=${version#v}" -o "$work/linter" "$package") \
		2>"$work/log" || status="$?"
	kill "$reporter" 2>/dev/null || true
	wait "$reporter" 2>/dev/null || true
	if ((status == 0)); then
		mv "$work/linter" "$linter"
	else
		echo "lint: golangci-lint could not be built:" >&2
		tail -n 20 "$work/log" >&2
	fi
	rm -rf "$work"
	return "$status"
}

[[ -x "$linter" ]] || build
[[ "${1:-}" != "--build-only" ]] || exit 0

failed=""
"$linter" run "$@" ./... || failed="the root module"
(cd sandbox && "$linter" run --config ../.golangci.yml --enable-only "$source_only" "$@" ./...) ||
	failed="${failed:+$failed and }sandbox"
if [[ -n "$failed" ]]; then
	cat >&2 <<-TEXT

		lint: findings in ${failed}. Each line names the file, the finding and, in brackets, its linter.
		  - Some of them are mended by: hack/lint.sh --fix
		  - The budgets and the arrows between packages are explained in CONTRIBUTING.md.
		  - Where the linter is wrong: //nolint:NAME // the reason
	TEXT
	exit 1
fi
