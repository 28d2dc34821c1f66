#!/usr/bin/env bash
# Runs tests, and says at the end what it left out: hack/test.sh {unit|unit-all|integration|race}...
#   unit         what needs no control plane, with the race detector and small samples (go test -short)
#   unit-all     the same with larger samples
#   integration  tests on control planes, without those that are left to make test-all (go test -short)
#   race         all tests on control planes, with an operator that has the race detector; real kubelets where they can run
# TEST_PARALLEL packages run side by side. TEST_FLAGS are added to the flags of go test. Outcomes and times of all tests are in dist/test-*.json.
set -euo pipefail
cd "$(dirname "$0")/.."

# The packages with a control plane; the longest come first, so that none of them runs alone at the end.
integration=(./test/machines ./test/e2e ./test/upgrade ./test/nodegroup ./test/maintenance ./test/attacks ./test/ui ./test/cluster ./test/monitoring
	./test/release ./test/openshift)
# Those that make test leaves out: ways to install Drover, and real kubelets.
more=(./test/install/... ./test/node)

gotestsum="$(hack/tool.sh gotestsum)"
mkdir -p dist
# The race detector waits a second for reports of other threads when a process ends, of which there are a hundred.
export GORACE="${GORACE:-atexit_sleep_ms=50}"
flags=()
[[ -z "${TEST_FLAGS:-}" ]] || read -ra flags <<<"$TEST_FLAGS"
# -trimpath: the build cache serves every checkout. -s -w and -vet=off: no debugger and no linter waits for the tests; make verify runs vet.
flags+=(-trimpath "-ldflags=-s -w" -vet=off)

# run runs tests and shows their progress: run NAME FORMAT FLAG... PACKAGE...
run() {
	local name="$1" format="$2"
	shift 2
	echo "test: $name tests (all outcomes go to dist/test-$name.json)"
	"$gotestsum" --format "$format" --format-hide-empty-pkg --jsonfile-timing-events "dist/test-$name.json" -- "${flags[@]}" "$@"
}

unit_tests() {
	# Whatever is no integration test is a unit test, so no package is forgotten. Those that take longest come first.
	local packages first all left
	first="$(go list ./internal/upgrade ./provider/vsphere ./test/simulation ./internal/healthcheck)"
	all="$(go list ./... | sort)"
	left="$(go list "${integration[@]}" "${more[@]}" | sort)"
	mapfile -t packages < <(echo "$first" && comm -23 <(echo "$all") <(echo "$left"))
	run "$1" pkgname -race -timeout 30m -p 4 "${@:2}" "${packages[@]}"
	(cd sandbox && CGO_ENABLED=0 go test -trimpath ./internal/kubelet ./internal/machineconfig) # these do not import Kubernetes
}

unit() {
	unit_tests unit -short
	page_left_out
}

# page_left_out says which tests of the page of kubectl drover ui cannot run here.
page_left_out() {
	if [[ -z "${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}" ]]; then
		echo "test: left out are the tests of kubectl drover ui in a browser: Chromium is not installed"
	elif [[ ! -e ui/node_modules/axe-core ]]; then
		echo "test: left out are the tests of accessibility of kubectl drover ui: hack/ui.sh test installs axe-core, and needs npm"
	fi
}

# The tests of the simulation run alone, and without the race detector: on a busy processor, and with the race detector, which has Go's scheduler choose
# at random, a seed has another history each time.
unit-all() {
	if command -v npm >/dev/null; then hack/ui.sh test; fi
	unit_tests unit-all -skip '^(TestSimulation_SameSeedSameHistory|TestMutations_Found)$'
	run simulation pkgname -timeout 30m -run '^(TestSimulation_SameSeedSameHistory|TestMutations_Found)$' ./test/simulation
	page_left_out
}

# on_control_planes runs integration tests with an operator: on_control_planes OPERATOR NAME FLAG... PACKAGE... Their outcome depends on programs that go
# test does not know of, so none is taken from its cache. Control planes of tests live for minutes: they collect garbage less often than in production.
on_control_planes() {
	DROVER_TEST_OPERATOR="$PWD/bin/$1" CGO_ENABLED=0 GOGC="${GOGC:-400}" run "$2" testname -count=1 -p "${TEST_PARALLEL:-5}" "${@:3}"
}

integration() {
	on_control_planes drover-operator integration -short -timeout 30m "${integration[@]}"
	echo "test: left out are the tests above that are skipped, ${more[*]}, other versions of Kubernetes and the race detector in the operator:" \
		"make test-all runs them"
}

race() {
	on_control_planes drover-operator-race race -timeout 80m "${integration[@]}" "${more[@]}"
	echo "test: left out are the tests above that are skipped, unit tests (make test) and other versions of Kubernetes (make test-versions):" \
		"make test-all runs them; the lanes in full: make faults, race-budgets, simulation and fuzz"
}

for lane in "$@"; do
	case "$lane" in
		unit | unit-all | integration | race) "$lane" ;;
		*) echo "hack/test.sh: unknown lane $lane; it is unit, unit-all, integration or race" >&2 && exit 2 ;;
	esac
done
