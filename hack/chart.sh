#!/usr/bin/env bash
# Lints and packages the Helm chart, and renders plain YAML from it, into dist/: drover-VERSION.tgz, install.yaml for OpenShift (what config/default
# installs) and install-kubernetes.yaml for plain Kubernetes (what config/kubernetes installs). VERSION is the release, as v1.2.3; otherwise what git
# describes, and then the version of the chart begins with 0.0.0.
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

"$helm" lint --strict charts/drover
"$helm" package charts/drover --version "$chart_version" --app-version "$version" --destination "$out" >/dev/null
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
render "$out/install.yaml" "OpenShift" --api-versions config.openshift.io/v1 --api-versions machineconfiguration.openshift.io/v1
render "$out/install-kubernetes.yaml" "plain Kubernetes" --set capabilities.machines=true
