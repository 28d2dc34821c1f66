#!/usr/bin/env bash
# Builds the kubectl plugin for all platforms and writes into dist/: an archive for each with the program, the licence and the program for kubectl's
# completion; the sums; krew's manifest; and manual pages of all commands (dist/man). Two runs of one commit write the same bytes.
#   PLUGIN_PLATFORMS   other platforms than all six: "linux/amd64"
#   PLUGIN_OUT         another folder than dist
#   PLUGIN_URL         where the archives will be; the default is the release of the version on GitHub
set -euo pipefail
cd "$(dirname "$0")/.."

version="${VERSION:-$(git describe --tags --always --dirty)}"
commit="${COMMIT:-$(git rev-parse HEAD)}"
# The time of the commit: a clock would make each archive another one.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
read -ra platforms <<<"${PLUGIN_PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}"
out="${PLUGIN_OUT:-dist}"
url="${PLUGIN_URL:-https://github.com/drover-io/drover/releases/download/$version}"

package=github.com/drover-io/drover/internal/version
# As in the Makefile, so that Go compiles nothing twice.
flags=(-trimpath -ldflags "-s -w -X $package.version=$version -X $package.commit=$commit")
stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
for platform in "${platforms[@]}"; do
	echo "plugin: building kubectl-drover $version for $platform" >&2
	program=kubectl-drover
	[[ "$platform" != windows/* ]] || program=kubectl-drover.exe
	CGO_ENABLED=0 GOOS="${platform%/*}" GOARCH="${platform#*/}" \
		go build "${flags[@]}" -buildvcs=false -o "$stage/${platform/\//_}/$program" ./cmd/kubectl-drover
done
go run ./hack/docs -man "$out/man"
CGO_ENABLED=0 go build "${flags[@]}" -buildvcs=false -o "$stage/kubectl-drover" ./cmd/kubectl-drover
"$stage/kubectl-drover" completion kubectl >"$stage/kubectl_complete-drover"
go run ./hack/plugin -stage "$stage" -out "$out" -version "$version" -url "$url" -epoch "$SOURCE_DATE_EPOCH" "${platforms[@]}"
echo "plugin: $out has ${#platforms[@]} archives, their sums, krew-drover.yaml and man/; each archive is as the manifest says" >&2
