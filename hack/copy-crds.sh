#!/usr/bin/env bash
# Copies the CRDs of machine.openshift.io from the module github.com/openshift/api, at the version in go.mod, to
# config/crd (the Default feature set, what a production cluster has) and to config/crd/migration (the feature set
# that has the authoritativeAPI fields, which tests of the migration need). With --check it changes nothing and fails
# when the copies differ from the module.
set -euo pipefail
cd "$(dirname "$0")/.."

source_dir="$(go list -m -f '{{.Dir}}' github.com/openshift/api)/machine/v1beta1/zz_generated.crd-manifests"
prefix="0000_10_machine-api_01"
check="${1:-}"

# copy FILE TARGET writes one CRD, or compares it.
copy() {
	if [[ "$check" == "--check" ]]; then
		if ! cmp -s "$source_dir/$1" "$2"; then
			echo "copy-crds: $2 differs from $1 of github.com/openshift/api; run hack/copy-crds.sh" >&2
			exit 1
		fi
		return
	fi
	mkdir -p "$(dirname "$2")"
	install -m 0644 "$source_dir/$1" "$2"
}

for resource in machines machinesets; do
	copy "${prefix}_${resource}-Default.crd.yaml" "config/crd/machine.openshift.io_${resource}.yaml"
	copy "${prefix}_${resource}-CustomNoUpgrade.crd.yaml" "config/crd/migration/machine.openshift.io_${resource}.yaml"
done
for folder in config/crd config/crd/migration; do
	copy "${prefix}_machinehealthchecks.crd.yaml" "$folder/machine.openshift.io_machinehealthchecks.yaml"
done
