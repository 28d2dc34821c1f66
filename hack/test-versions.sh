#!/usr/bin/env bash
# Runs the tests of what depends most on the API server against other versions of Kubernetes than that of drover-sandbox:
# hack/test-versions.sh [VERSION...], for example 1.31.14, or 1.31. Without an argument it is every version in sandbox/versions, one after another.
# kube-apiserver, kube-controller-manager and kube-scheduler are of that version; etcd, kwok, kubectl and kubelets are those of drover-sandbox. A test
# that needs what the version does not have is skipped, and says what that is. The whole output is in dist/test-versions-vVERSION.log.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(./test/e2e ./test/maintenance ./test/machines)

# versions prints the versions in sandbox/versions that an argument names, and all of them without one.
versions() {
	local name known
	for known in sandbox/versions/v*.mod; do
		known="$(basename "$known" .mod)"
		for name in "$@"; do
			[[ "$known." != "v$name."* ]] || echo "${known#v}"
		done
		(($# > 0)) || echo "${known#v}"
	done | sort -Vu
}

# summary prints how packages and tests ended, and why tests were skipped.
summary() {
	awk '
		/^=== / { name = $3 }
		/^ +[a-z_]+\.go:[0-9]+: / { said[name] = $0 }
		/^(ok|FAIL|panic:|---|after all tests)/ || /^ *--- (FAIL|SKIP)/ { print }
		/^ *--- SKIP/ { print said[$3] }
		{ fflush() }'
}

# messages prints what failed tests have said, from the whole output.
messages() {
	awk '
		NR == FNR { if ($1 == "---" && $2 == "FAIL:") failed[$3]; next }
		/^=== / { name = $3; next }
		/^--- / { name = "" }
		name in failed && printed++ < 300' "$1" "$1"
}

# test_version runs the tests on one version.
test_version() {
	local log="dist/test-versions-v$1.log"
	mkdir -p dist
	echo "test-versions: $("bin/kubernetes/v$1/kube-apiserver" --version); all output goes to $log"
	# The result depends on programs that go test does not know of, so none is taken from its cache.
	if ! DROVER_TEST_OPERATOR="$PWD/bin/drover-operator" CGO_ENABLED=0 KUBEBUILDER_ASSETS="$PWD/bin/kubernetes/v$1" go test -trimpath -short -count=1 -v -timeout 30m -p "${TEST_PARALLEL:-5}" "${packages[@]}" 2>&1 |
		tee "$log" | summary; then
		messages "$log"
		echo "test-versions: tests failed on Kubernetes $1" >&2
		return 1
	fi
}

mapfile -t chosen < <(versions "$@")
if ((${#chosen[@]} == 0)); then
	echo "test-versions: $* is not one of the versions in sandbox/versions: $(versions | paste -sd ' ')" >&2
	exit 2
fi
hack/build.sh sandbox operator
for version in "${chosen[@]}"; do
	K8S="$version" hack/build.sh kubernetes
	test_version "$version"
done
