#!/usr/bin/env bash
# Builds the kubectl plugin for all platforms and writes into dist/: an archive for each with the program, the licence and the program for kubectl's
# completion; the checksums; krew's manifest; and manual pages of all commands (dist/man). .goreleaser.yaml describes the archives. Two runs of
# one commit write the same bytes.
#   PLUGIN_PLATFORMS   other platforms than all six: "linux/amd64"
#   PLUGIN_OUT         another folder than dist
#   PLUGIN_URL         where the archives will be; the default is the release of the version on GitHub
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION="${VERSION:-$(git describe --tags --always --dirty)}"
COMMIT="${COMMIT:-$(git rev-parse HEAD)}"
# The time of the commit: a clock would make each archive another one.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
SOURCE_DATE="$(TZ=UTC date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || TZ=UTC date -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
PLUGIN_URL="${PLUGIN_URL:-https://github.com/drover-io/drover/releases/download/$VERSION}"
PLUGIN_URL="${PLUGIN_URL%/}"
out="${PLUGIN_OUT:-dist}"
# krew wants a semantic version; what is no release gets one that comes before all releases.
KREW_VERSION="${VERSION#v}"
[[ "$VERSION" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || KREW_VERSION="0.0.0-${VERSION//[^0-9A-Za-z.-]/-}"
mkdir -p bin
# Below this folder: goreleaser takes no other files.
PLUGIN_STAGE="$(mktemp -d bin/.plugin-XXXXXX)"
trap 'rm -rf "$PLUGIN_STAGE"' EXIT
export VERSION COMMIT SOURCE_DATE_EPOCH SOURCE_DATE PLUGIN_URL PLUGIN_STAGE KREW_VERSION

goreleaser="$(hack/tool.sh goreleaser)"
CGO_ENABLED=0 go run -trimpath ./hack/docs -man "$out/man"
CGO_ENABLED=0 go run -trimpath ./cmd/kubectl-drover completion kubectl >"$PLUGIN_STAGE/kubectl_complete-drover"
changes=(-e "s|^dist: .*|dist: $PLUGIN_STAGE/dist|")
if [[ -n "${PLUGIN_PLATFORMS:-}" ]]; then
	targets="${PLUGIN_PLATFORMS//\//_}"
	changes+=(-e "s|^  targets: .*|  targets: [${targets// /, }]|")
fi
sed "${changes[@]}" .goreleaser.yaml >"$PLUGIN_STAGE/goreleaser.yaml"
"$goreleaser" release --snapshot --config "$PLUGIN_STAGE/goreleaser.yaml" >&2
mkdir -p "$out"
cp "$PLUGIN_STAGE"/dist/kubectl-drover_"$VERSION"_* "$out"
cp "$PLUGIN_STAGE/dist/krew/drover.yaml" "$out/krew-drover.yaml"
echo "plugin: $out has $(grep -c . "$out/kubectl-drover_${VERSION}_checksums.txt") archives, their checksums, krew-drover.yaml and man/" >&2
