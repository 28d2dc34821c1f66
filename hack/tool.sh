#!/usr/bin/env bash
# Builds a tool, at the version that tools/NAME/go.mod pins, and prints where it is: hack/tool.sh helm. It is built once, into bin/cache, and
# linked as bin/tools/NAME. Each tool has a module of its own, so that none of them chooses a library for another. Where it needs build tags they are
# in tools/NAME/tags.
set -euo pipefail
cd "$(dirname "$0")/.."

name="${1:?which tool? One of: $(cd tools && echo */)}"
[[ -f "tools/$name/go.mod" ]] || {
	echo "tool: there is no tools/$name/go.mod; tools are: $(cd tools && echo */)" >&2
	exit 1
}
tags="$(cat "tools/$name/tags" 2>/dev/null || true)"
package="$(cd "tools/$name" && go list -f '{{.ImportPath}}' tool)"
# Everything that it is built from, and for what.
key="$({
	cat "tools/$name"/go.mod "tools/$name"/go.sum
	find "tools/$name" -type f \( -name "*.go" -o -name tags \) -print0 | LC_ALL=C sort -z | xargs -0r cat
	go env GOVERSION GOARCH
} | sha256sum | cut -c1-12)"
binary="bin/cache/$name-$key"

# progress prints every 15 seconds how many packages the build has compiled, until it is killed.
progress() {
	local log="$1" total="$2" begin="$SECONDS"
	while sleep 15; do
		echo "tool: $(wc -l <"$log") packages compiled in $((SECONDS - begin)) s, of at most ${total}" >&2
	done
}

if [[ ! -x "$binary" ]]; then
	mkdir -p bin/cache bin/tools
	work="$(mktemp -d bin/cache/.tool-XXXXXX)"
	reporter=""
	trap '[[ -z "$reporter" ]] || kill "$reporter" 2>/dev/null || true; rm -rf "$work"' EXIT
	echo "tool: building $package; that takes some minutes, once" >&2
	: >"$work/log"
	progress "$work/log" "$(cd "tools/$name" && go list -tags "$tags" -deps "$package" | wc -l)" &
	reporter="$!"
	status=0
	out="$PWD/$work/binary"
	(cd "tools/$name" && CGO_ENABLED=0 go build -v -tags "$tags" -trimpath -ldflags "-s -w" -o "$out" "$package") 2>"$work/log" || status="$?"
	kill "$reporter" 2>/dev/null || true
	wait "$reporter" 2>/dev/null || true
	reporter=""
	if ((status != 0)); then
		echo "tool: $name could not be built:" >&2
		tail -n 20 "$work/log" >&2
		exit "$status"
	fi
	mv "$out" "$binary"
fi
mkdir -p bin/tools
ln -sfn "../../$binary" "bin/tools/$name"
echo "$PWD/$binary"
