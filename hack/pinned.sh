#!/usr/bin/env bash
# Checks that chart, plain YAML and bundle name the image by its digest and by nothing else: hack/pinned.sh DIST REPOSITORY@sha256:...
set -euo pipefail

dist="${1:?which folder?}"
image="${2:?which image?}"
if [[ ! "$image" =~ ^[^@]+@sha256:[0-9a-f]{64}$ ]]; then
	echo "pinned: $image is no image with a digest" >&2
	exit 1
fi

# images FILE prints the images that a manifest names, each once.
images() { sed -nE "s/^[[:space:]-]*(image|containerImage):[[:space:]]+[\"']?([^\"' ]+)[\"']?[[:space:]]*$/\2/p" "$1" | sort -u; }

status=0
for file in "$dist"/install.yaml "$dist"/install-kubernetes.yaml "$dist"/bundle/manifests/drover.clusterserviceversion.yaml; do
	found="$(images "$file")"
	if [[ "$found" != "$image" ]]; then
		printf 'pinned: %s names these images, and should name only %s:\n%s\n' "$file" "$image" "${found:-none}" >&2
		status=1
	fi
done
archives=("$dist"/drover-*.tgz)
for archive in "${archives[@]}"; do
	# grep -q would end before tar has written everything, which fails tar.
	if ! tar -xzOf "$archive" drover/Chart.yaml | grep -xF "  drover.dev/image-digest: ${image#*@}" >/dev/null ||
		! tar -xzOf "$archive" drover/values.yaml | grep -xF "  repository: ${image%@*}" >/dev/null; then
		echo "pinned: $archive does not name $image" >&2
		status=1
	fi
done
exit "$status"
