#!/usr/bin/env bash
# Lints and packages the Helm chart, and renders plain YAML from it, into dist/: drover-VERSION.tgz, install.yaml for OpenShift (what config/default
# installs) and install-kubernetes.yaml for plain Kubernetes (what config/kubernetes installs). VERSION is the release, as v1.2.3; otherwise what git
# describes, and then the version of the chart begins with 0.0.0. With IMAGE_DIGEST (sha256:...) the chart and the YAML name the image by it, and
# IMAGE_REPOSITORY is where the image is, unless that is where config/ says.
set -euo pipefail
cd "$(dirname "$0")/.."

version="${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}"
if [[ "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	chart_version="${version#v}"
else
	chart_version="0.0.0-git.${version//[^0-9A-Za-z]/-}"
fi
out="${DIST:-dist}"
helm="$(hack/tool.sh helm)"
mkdir -p "$out"

# Of a copy: what belongs to a release is not in the repository.
chart="$(mktemp -d)/drover"
trap 'rm -rf "${chart%/drover}"' EXIT
cp -R charts/drover "$chart"
if [[ -n "${IMAGE_REPOSITORY:-}" ]]; then
	sed -i "s|^  repository: ghcr.io/drover-io/drover\$|  repository: ${IMAGE_REPOSITORY}|" "$chart/values.yaml"
fi
if [[ -n "${IMAGE_DIGEST:-}" ]]; then
	[[ "$IMAGE_DIGEST" =~ ^sha256:[0-9a-f]{64}$ ]] || {
		echo "chart: IMAGE_DIGEST=$IMAGE_DIGEST is no digest" >&2
		exit 1
	}
	sed -i "s|^annotations:\$|&\n  drover.dev/image-digest: ${IMAGE_DIGEST}|" "$chart/Chart.yaml"
fi
"$helm" lint --strict "$chart"
"$helm" package "$chart" --version "$chart_version" --app-version "$version" --destination "$out" >/dev/null
archive="$out/drover-${chart_version}.tgz"

# render FILE WHAT ARGUMENTS... writes what the chart makes in namespace drover-system, and that namespace before it.
render() {
	local file="$1" what="$2" name
	name="$(basename "$file")"
	shift 2
	{
		echo "# Drover ${version} for ${what}. To uninstall it, and keep the CRDs and the namespaces of machines and leases:"
		echo "#   kubectl delete -f ${name} -l app.kubernetes.io/name=drover"
		cat config/manager/namespace.yaml
		"$helm" template drover "$archive" --namespace drover-system "$@"
	} >"$file"
	echo "wrote $file: $(grep -c '^kind:' "$file") objects for ${what}"
}

echo "wrote $archive: version ${chart_version}, appVersion ${version}"
render "$out/install.yaml" "OpenShift" --api-versions config.openshift.io/v1 --api-versions machineconfiguration.openshift.io/v1 \
	--api-versions machine.openshift.io/v1beta1
render "$out/install-kubernetes.yaml" "plain Kubernetes" --set capabilities.machines=true,capabilities.autoscaling=true
