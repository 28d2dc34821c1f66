#!/usr/bin/env bash
# Builds the image and pushes it.
#   IMAGE_REGISTRY   registry and organization, as ghcr.io/drover-io; the image is IMAGE_REGISTRY/drover:VERSION, of a release also :latest
#   IMG              instead: the whole name, with or without a tag
#   REGISTRY_USER, REGISTRY_TOKEN   who pushes; without them it is who is logged in (~/.docker/config.json)
#   DRY_RUN=y        says what would be done, and does nothing
#   DRY_RUN=nopush   builds, and does not push
#   BUILT=y          pushes dist/images as it is: it was built before, by others who may not push
set -euo pipefail
cd "$(dirname "$0")/.."

version="${VERSION:-$(git describe --tags --always --dirty)}"
name="${IMG:-${IMAGE_REGISTRY:+$IMAGE_REGISTRY/drover}}"
if [[ -z "$name" ]]; then
	echo "push: where to? Set IMAGE_REGISTRY (ghcr.io/drover-io) or IMG (ghcr.io/drover-io/drover:v1)" >&2
	exit 1
fi
# A colon after the last slash is a tag's; one before is a port's.
tag="$version"
if [[ "${name##*/}" == *:* ]]; then
	tag="${name##*:}"
	name="${name%:*}"
fi
# Not every version that git describes can be a tag.
tag="${tag//+/-}"

case "${DRY_RUN:-}" in
"" | n | no | nopush) ;;
y | yes)
	echo "push: dry run: would build drover $version and push it as $name:$tag"
	exit 0
	;;
*)
	echo "push: DRY_RUN=$DRY_RUN is not known; it is y or nopush" >&2
	exit 1
	;;
esac
if [[ "${DRY_RUN:-}" != nopush && "${BUILT:-}" != y && -n "$(git status --porcelain)" ]]; then
	echo "push: there are changes that are not committed; what is pushed must be a commit" >&2
	exit 1
fi
[[ "${BUILT:-}" == y ]] || VERSION="$version" hack/images.sh
if [[ "${DRY_RUN:-}" == nopush ]]; then
	echo "push: built, and not pushed as $name:$tag, since DRY_RUN is nopush"
	exit 0
fi
"$(hack/tool.sh images)" push --layout dist/images/drover --to "$name" --tag "$tag"
# What config/ names; a release candidate is not what people get who name no version.
if [[ "$tag" =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
	"$(hack/tool.sh images)" push --layout dist/images/drover --to "$name" --tag latest
fi
