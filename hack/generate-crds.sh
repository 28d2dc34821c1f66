#!/usr/bin/env bash
# Writes what follows from the types in api/: their deepcopy functions, and the CRDs in config/crd. controller-gen, at
# the version that tools/go.mod pins, is built once, into bin/cache; with --build-only that is all.
set -euo pipefail
cd "$(dirname "$0")/.."

package=sigs.k8s.io/controller-tools/cmd/controller-gen
version="$(awk '$1 == "sigs.k8s.io/controller-tools" { print $2; exit }' tools/go.mod)"
# One that was built with an older Go cannot read the code of a newer one.
generator="$PWD/bin/cache/controller-gen-${version}-$(go env GOVERSION)-$(sha256sum <tools/go.sum | cut -c1-10)"

if [[ ! -x "$generator" ]]; then
	mkdir -p bin/cache
	work="$(mktemp -d "$PWD/bin/cache/.generate-XXXXXX")"
	trap 'rm -rf "$work"' EXIT
	echo "generate: building controller-gen ${version}; that takes a minute, once" >&2
	# The version is written into each CRD.
	(cd tools && CGO_ENABLED=0 go build -trimpath \
		-ldflags "-s -w -X sigs.k8s.io/controller-tools/pkg/version.version=${version}" -o "$work/controller-gen" "$package")
	mv "$work/controller-gen" "$generator"
fi
[[ "${1:-}" != "--build-only" ]] || exit 0

# generate FOLDER GROUP... writes what belongs to some groups, their CRDs to a folder.
generate() {
	local folder="$1" paths=()
	shift
	for group in "$@"; do
		paths+=("paths=./api/${group}/...")
	done
	"$generator" object crd "${paths[@]}" "output:crd:dir=config/crd/${folder}"
}

generate nodemaintenance medik8s kubevirt
generate mutex mutex
generate nodegroup drover
generate autoscaling autoscaling
