#!/usr/bin/env bash
# Writes Drover's image for linux/amd64 and linux/arm64 as an OCI layout, dist/images/drover, with lists of what went into it (SPDX) beside it.
# No container engine and no base image: the image holds one static program and runs as a user without rights. Two builds of one commit have one digest:
# --check builds twice and compares. VERSION and COMMIT are stamped in; PLATFORMS says for which platforms.
set -euo pipefail
cd "$(dirname "$0")/.."

version="${VERSION:-$(git describe --tags --always --dirty)}"
commit="${COMMIT:-$(git rev-parse HEAD)}"
# The time of the commit: a clock would make each build another image.
created="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
platforms="${PLATFORMS:-linux/amd64,linux/arm64}"
images="$(hack/tool.sh images)"

# build FOLDER writes the layout and the lists below a folder.
build() {
	rm -rf "$1/drover" "$1/sbom"
	"$images" build --module . --package ./cmd/drover --layout "$1/drover" --sbom-dir "$1/sbom" \
		--version "$version" --commit "$commit" --created "$created" --platforms "$platforms"
}

mkdir -p dist/images
echo "images: building drover $version for $platforms" >&2
build dist/images
if [[ "${1:-}" == --check ]]; then
	again="$(mktemp -d)"
	trap 'rm -rf "$again"' EXIT
	echo "images: building it again, to compare" >&2
	build "$again" >/dev/null
	if ! diff <("$images" digest --layout dist/images/drover) <("$images" digest --layout "$again/drover") ||
		! diff -r dist/images/sbom "$again/sbom"; then
		echo "images: two builds of one commit differ" >&2
		exit 1
	fi
	echo "images: two builds have one digest" >&2
fi
echo "images: dist/images/drover is an OCI layout; its lists are in dist/images/sbom" >&2
