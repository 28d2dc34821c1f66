#!/usr/bin/env bash
# Builds bin/drover-sandbox, the control plane for demos, tests and benchmarks. The first build compiles Kubernetes and
# takes about ten minutes; the result is kept in bin/cache under a key of everything that goes into it, so that later
# runs with the same sources do nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

kubernetes_version="$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' sandbox/go.mod)"
# kubectl complains about a server without a version. The flags are part of the key of Go's own build cache too:
# whoever vets or tests the module sandbox without -trimpath compiles Kubernetes a second time.
version_flags="-X k8s.io/component-base/version.gitVersion=${kubernetes_version}"
version_flags+=" -X k8s.io/client-go/pkg/version.gitVersion=${kubernetes_version}"
build_flags=(-trimpath -ldflags "-s -w ${version_flags}")
target="bin/drover-sandbox"
kept=2

# key prints a hash of the sources, the modules and the Go tool.
key() {
	{
		go env GOVERSION GOOS GOARCH GOFLAGS CGO_ENABLED GOEXPERIMENT
		printf '%s\n' "${build_flags[@]}"
		find sandbox test/cluster test/machineconfig test/realnode provider/*.go provider/kwok config/crd -type f ! -name '*_test.go' ! -name '*.md' | LC_ALL=C sort |
			xargs sha256sum
	} | sha256sum | cut -c1-20
}

# progress prints every 15 seconds how many packages the build has compiled, until it is killed.
progress() {
	local log="$1" total="$2" begin="$SECONDS" compiled
	while sleep 15; do
		compiled="$(wc -l <"$log")"
		echo "drover-sandbox: ${compiled} packages compiled in $((SECONDS - begin)) s, of ${total} in all" >&2
	done
}

build="bin/cache/drover-sandbox-$(key)"
if [[ -x "$target" && "$target" -ef "$build" ]]; then
	exit 0
fi
if [[ ! -x "$build" ]]; then
	mkdir -p bin/cache
	work="$(mktemp -d bin/cache/.build-XXXXXX)"
	reporter=""
	trap '[[ -z "$reporter" ]] || kill "$reporter" 2>/dev/null || true; rm -rf "$work"' EXIT
	echo "drover-sandbox: building it with Kubernetes ${kubernetes_version}; the first time that takes about ten" \
		"minutes on two cores" >&2
	total="$(cd sandbox && go list -deps ./cmd/drover-sandbox | wc -l)"
	: >"$work/log"
	progress "$work/log" "$total" &
	reporter="$!"
	if ! (cd sandbox && go build -v "${build_flags[@]}" -o "../$work/drover-sandbox" ./cmd/drover-sandbox) \
		2>"$work/log"; then
		echo "drover-sandbox: the build failed:" >&2
		# The names of compiled packages are no part of the message.
		grep -vE '^[A-Za-z0-9._~/-]+$' "$work/log" >&2 || tail -n 20 "$work/log" >&2
		exit 1
	fi
	mv "$work/drover-sandbox" "$build"
fi
# A hard link takes no room; the rename replaces a program that runs.
ln -f "$build" "$target.new" 2>/dev/null || cp -f "$build" "$target.new"
mv -f "$target.new" "$target"
[[ "$target" -ef "$build" ]] || touch "$build"
# shellcheck disable=SC2012 # the names are our own and have no blanks
ls -1t bin/cache/drover-sandbox-* | tail -n "+$((kept + 1))" | xargs -r rm -f
