# Drover. `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# TEST_PARALLEL is how many packages run side by side: each of the larger ones has a control plane of its own, and waits for it most of the time.
TEST_PARALLEL ?= 5
export TEST_PARALLEL TEST_FLAGS

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build drover, kubectl-drover and drover-sandbox into bin/ (some minutes the first time).
	@VERSION="$(VERSION)" COMMIT="$(COMMIT)" hack/build.sh programs sandbox

.PHONY: sandbox
sandbox: ## Build the control plane for demo and tests.
	@hack/build.sh sandbox

.PHONY: sandbox-node
sandbox-node: ## Build the program of real kubelets and hollow nodes, drover-sandbox-node.
	@hack/build.sh sandbox node

.PHONY: earlier
earlier: ## Build the earlier operator that tests upgrade from and roll back to.
	@hack/earlier.sh

.PHONY: tools
tools: ## Build what tests and artifacts need: helm, promtool, goreleaser, operator-verify, and the program that makes images.
	@for tool in helm promtool images operator-verify goreleaser; do hack/tool.sh $$tool >/dev/null; done

.PHONY: images
images: ## Write the images as OCI layouts below dist/images; two builds of one commit have one digest.
	@hack/images.sh

.PHONY: push
push: ## Push the images: IMAGE_REGISTRY=..., REGISTRY_USER, REGISTRY_TOKEN, DRY_RUN=y|nopush.
	@hack/push.sh

.PHONY: chart
chart: ## Lint and package the Helm chart, and render the plain install YAML, into dist/.
	@hack/chart.sh

.PHONY: bundle
bundle: ## Write and validate the OLM bundle and its catalog, into dist/bundle.
	@hack/bundle.sh

.PHONY: plugin
plugin: ## Archives of the kubectl plugin for all platforms, with the krew manifest, into dist/.
	@hack/plugin.sh

.PHONY: test-node
test-node: sandbox-node tools ## Run the tests on real kubelets and containers; needs root (make test-race and make test-all run them where they can).
	@hack/test-node.sh

.PHONY: demo
demo: ## Show the main job on a control plane of its own (DEMO_NODES=50; DEMO_UI=1 ends with the page of kubectl drover ui).
	@VERSION="$(VERSION)" COMMIT="$(COMMIT)" hack/demo.sh

.PHONY: demo-vsphere
demo-vsphere: ## Show the life of nodes on VMware vSphere, on a simulated vCenter (VSPHERE_NODES=10).
	@VERSION="$(VERSION)" COMMIT="$(COMMIT)" hack/demo-vsphere.sh

.PHONY: demo-soak
demo-soak: build ## Run the demo DEMO_SOAK_RUNS=20 times, the second half beside processes that keep all cores busy.
	@hack/demo-soak.sh

# Checks what -race needs before anything is built: without a C compiler go only says that -race requires cgo.
.PHONY: race-detector
race-detector:
	@compiler="$$(go env CC)"; if [[ "$$(go env CGO_ENABLED)" != 1 ]] || ! command -v "$${compiler%% *}" >/dev/null; then \
		echo "make: the race detector needs a C compiler: install gcc or clang, and do not set CGO_ENABLED=0" >&2; exit 1; fi

.PHONY: operator
operator: ## Build the operator that integration tests run.
	@hack/build.sh operator

.PHONY: operator-race
operator-race: race-detector
	@hack/build.sh operator-race

# RACE_OPERATOR has tests run the operator that has the race detector.
RACE_OPERATOR = DROVER_TEST_OPERATOR="$(CURDIR)/bin/drover-operator-race"

.PHONY: test
test: race-detector sandbox operator ## Run what a developer runs before each commit: unit tests with the race detector, and tests on control planes (ten minutes on two cores).
	@hack/test.sh unit integration

.PHONY: test-race
test-race: operator-race sandbox-node tools earlier ## Run all tests on control planes, with an operator that has the race detector.
	@hack/test.sh race

.PHONY: test-all
test-all: race-detector sandbox operator ## Run everything: make test, test-race, test-versions, tests of the tools (90 minutes).
	@hack/test.sh unit-all
	@$(MAKE) --no-print-directory test-race
	@$(MAKE) --no-print-directory test-versions
	cd tools/images && go test ./...
	@CGO_ENABLED=0 go run -trimpath ./test/realnode/missing

.PHONY: test-versions
test-versions: sandbox operator ## Run e2e, maintenance and machines on other versions of Kubernetes, which it builds first (K8S=1.31.14 for one).
	@hack/test-versions.sh $(K8S)

# The benchmarks run the control plane on one half of the processors, and Drover and what it is compared with on the other; BENCH_PIN=false does not.
BENCH_PIN ?= true
BENCH = CGO_ENABLED=0 go run -trimpath ./test/bench $(1) -pin=$(BENCH_PIN) -json $(2).json

.PHONY: bench
bench: bench-rollouts bench-nodegroups bench-drains bench-machines bench-replacements bench-upgrades ## Measure roll-outs, machines and upgrades against bare writers, drains and replacements against what budgets allow (an hour).

.PHONY: bench-rollouts
bench-rollouts: build ## Measure roll-outs of 500, 2000 and 5000 Machines (BENCH_SIZES=500,2000).
	$(call BENCH,rollouts,bench) $(if $(BENCH_SIZES),-sizes $(BENCH_SIZES))

.PHONY: bench-scale
bench-scale: build ## Measure clusters of 5,000 and 20,000 Machines with all capabilities (40 minutes for SIZES=20000), and of STATIC=50000,100000 without heartbeats.
	$(call BENCH,scale,bench-scale) -sizes '$(if $(SIZES)$(STATIC),$(SIZES),5000,20000)' -static '$(STATIC)'

.PHONY: bench-platform
bench-platform: build ## Measure Drover's own platform code: the operator with and without its parts, with 5,000 Machines, and starts with 20,000 (an hour and a half).
	$(call BENCH,platform,bench-platform) -sizes 5000
	$(call BENCH,platform,bench-platform-starts) -sizes 20000 -starts
	go test -run '^$$' -bench Recorder ./internal/operator

.PHONY: bench-nodegroups
bench-nodegroups: build ## Measure roll-outs of a NodeGroup of 5000 Nodes (BENCH_NODEGROUPS="-nodes 500"), and decisions about its budget.
	$(call BENCH,nodegroups,bench-nodegroups) $(BENCH_NODEGROUPS)
	go test -run '^$$' -bench Begin ./internal/disruption

.PHONY: bench-drains
bench-drains: build ## Measure drains of 50 nodes at the same time, and memory with 50,000 pods (BENCH_DRAINS="-large 0").
	$(call BENCH,drains,bench-drains) $(BENCH_DRAINS)

.PHONY: bench-machines
bench-machines: build ## Measure a MachineSet from 0 to 1000 and back, and one on a vCenter (BENCH_MACHINES="-machines 200").
	$(call BENCH,machines,bench-machines) $(BENCH_MACHINES)

.PHONY: bench-replacements
bench-replacements: build ## Measure the replacement of 200 Machines after a change of their template (BENCH_REPLACEMENTS="-machines 20").
	$(call BENCH,replacements,bench-replacements) $(BENCH_REPLACEMENTS)

.PHONY: bench-upgrades
bench-upgrades: build ## Measure a gated upgrade of 200 nodes whose Jobs end at once (BENCH_UPGRADES="-nodes 50").
	$(call BENCH,upgrades,bench-upgrades) $(BENCH_UPGRADES)

.PHONY: faults
faults: race-detector sandbox-node operator-race ## Run the fault lanes in full: a kill before and after every write, every way to end an upgrade, an old view of every kind (hours; STALE=all: the last alone).
ifeq ($(STALE),)
	DROVER_CRASH_PLANS=all DROVER_STALE=all $(RACE_OPERATOR) go test -timeout 300m -p 1 -count=1 -v -run 'TestCrash|TestReplacement_Crash|TestEverythingIsGivenBack|TestStale|TestRace_NothingForeignIsLost' ./test/e2e ./test/upgrade ./test/nodegroup ./test/machines
else
	hack/stale.sh '$(STALE)'
endif

.PHONY: race-budgets
race-budgets: race-detector sandbox operator-race ## Run the race for the last places of a budget in full, and a guarded NoExecute taint on 100 nodes with 3,000 pods (RACE_ROUNDS=200; an hour).
	DROVER_RACE_ROUNDS=$(or $(RACE_ROUNDS),200) $(RACE_OPERATOR) go test -timeout 180m -count=1 -v -run TestBudgets_Race ./test/upgrade
	DROVER_GUARD_NODES=100 $(RACE_OPERATOR) go test -timeout 60m -count=1 -v -run TestGuard_Waves ./test/maintenance

.PHONY: attacks-memory
attacks-memory: sandbox ## Fill the API server with 2,000 objects of 250 KB or more of each kind that a tenant may create, and measure the operator's memory.
	DROVER_ATTACKS_FLOOD=2000 go test -count=1 -timeout 30m -v -run TestTenant_FillsTheCache ./test/attacks

.PHONY: simulation
simulation: race-detector ## Run the simulation in full, of which make test runs a sample (SIMULATION_SEEDS=20000).
	DROVER_SIMULATION_SEEDS=$(or $(SIMULATION_SEEDS),500) go test -race -timeout 180m -count=1 -v -run 'TestSimulation' ./test/simulation

.PHONY: fuzz
fuzz: ## Fuzz the record codecs and the merge (FUZZ_TIME=60s each).
	hack/fuzz.sh

.PHONY: generate
generate: ## Write everything that is generated: CRDs, copies of others' CRDs, deepcopy functions and reference pages.
	hack/generate-crds.sh
	hack/copy-crds.sh
	CGO_ENABLED=0 go run -trimpath ./hack/docs
	CGO_ENABLED=0 go run -trimpath ./hack/chart
	CGO_ENABLED=0 go run -trimpath ./hack/bundle

.PHONY: ui
ui: ## Check, test and build the page of kubectl drover ui, into internal/cli/ui/dist; needs npm.
	@hack/ui.sh test build

# The tests that serve or measure the page, with the flags of the other tests, so that they are compiled once.
PAGE_TEST = CGO_ENABLED=0 go test -trimpath "-ldflags=-s -w" -vet=off -count=1 -v

.PHONY: ui-demo
ui-demo: ## Serve the page of kubectl drover ui with an invented fleet, until you press Ctrl-C (UI_NODES=5000).
	DROVER_UI_DEMO=$(or $(UI_NODES),500) $(PAGE_TEST) -timeout 0 -run '^TestDemo$$' ./internal/cli/ui

.PHONY: screenshots
screenshots: ## Take the pictures of docs/ui.md from an invented fleet; needs Chromium (UI_NODES=20000).
	DROVER_UI_PICTURES="$(CURDIR)/docs/images" $(PAGE_TEST) -run '^TestPictures$$' ./internal/cli/ui

.PHONY: bench-ui
bench-ui: ## Measure the page of kubectl drover ui in Chromium: first paint, frames, bytes and memory (UI_NODES=5000,20000).
	DROVER_UI_BENCH="$${UI_NODES:-5000,20000}" $(PAGE_TEST) -timeout 30m -run '^TestPerformance$$' ./internal/cli/ui

.PHONY: lint
lint: ## Run golangci-lint over both modules.
	@hack/lint.sh

.PHONY: verify
verify: ## Generate, tidy and lint, and check the words of the glossary; fail when that changes or finds anything.
	@hack/verify.sh

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in all modules; asks vuln.go.dev.
	hack/vulncheck.sh

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin dist
