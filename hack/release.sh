#!/usr/bin/env bash
# Makes what a release consists of: the image in dist/images, and in dist/release the files of the release with their sums, SHA256SUMS. Chart, plain
# YAML and bundle name the image by its digest, which is known before the image is pushed. VERSION is the release, as v1.2.3; IMAGE_REPOSITORY is
# where the image will be. Nothing is pushed and nothing is signed: hack/publish.sh does that.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! "${VERSION:-}" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "release: VERSION=${VERSION:-} is no release: it is like v1.2.3 or v1.2.3-rc.1" >&2
	exit 1
fi
export VERSION IMAGE_REPOSITORY="${IMAGE_REPOSITORY:-ghcr.io/drover-io/drover}"
epoch="$(git log -1 --format=%ct)"
rm -rf dist
mkdir -p dist/release
notes="$(hack/release-notes.sh "$VERSION")"
printf '%s\n' "$notes" >dist/release-notes.md

hack/images.sh
IMAGE_DIGEST="$("$(hack/tool.sh images)" digest --layout dist/images/drover | head -n 1)"
export IMAGE_DIGEST
hack/chart.sh
hack/bundle.sh
hack/plugin.sh
hack/pinned.sh dist "$IMAGE_REPOSITORY@$IMAGE_DIGEST"

# archive NAME FOLDER CONTENT packs a folder; the same content gives the same bytes.
archive() {
	tar -C "$2" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -c "$3" | gzip -n >"dist/release/$1"
}
archive "drover-bundle_$VERSION.tar.gz" dist bundle
archive "drover-man_$VERSION.tar.gz" dist man
archive "drover-sbom_$VERSION.tar.gz" dist/images sbom
shopt -s nullglob
cp dist/*.tar.gz dist/*.tgz dist/*.zip dist/*_checksums.txt dist/*.yaml dist/release/
(cd dist/release && sha256sum -- * >SHA256SUMS)
echo "release: dist/release has $(wc -l <dist/release/SHA256SUMS) files of $VERSION; its image is $IMAGE_REPOSITORY@$IMAGE_DIGEST" >&2
