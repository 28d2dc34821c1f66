#!/usr/bin/env bash
# Looks for known vulnerabilities that the code can reach, in each module: hack/vulncheck.sh [FOLDER...]. It asks the Go vulnerability database,
# https://vuln.go.dev, and fails for each finding. Of the modules in tools/ only the lists of what they require are compared: they reach no cluster.
set -euo pipefail
cd "$(dirname "$0")/.."

govulncheck="$(hack/tool.sh govulncheck)"
if (($# > 0)); then
	modules=("$@")
else
	modules=(. sandbox tools)
	for folder in tools/*/; do modules+=("${folder%/}"); done
fi
failed=()
for module in "${modules[@]}"; do
	arguments=(./...)
	[[ "$module" != tools* ]] || arguments=(-scan module)
	echo "vulncheck: $module" >&2
	"$govulncheck" -C "$module" "${arguments[@]}" || failed+=("$module")
done
if ((${#failed[@]} > 0)); then
	echo "vulncheck: there are vulnerabilities, or it could not look, in: ${failed[*]}; see above" >&2
	exit 1
fi
