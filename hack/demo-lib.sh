# shellcheck shell=bash
# What the demos share; they source it from the root of the repository. data is their folder, sandbox the program of the control plane, empty until
# it is built, operator, page and builder the processes that end with the demo.
data="$(mktemp -d)"
sandbox=""
operator=""
page=""
builder=""
export DROVER_SANDBOX_DATA="$data/sandbox" CORE_FOLDER="$data"
PATH="$PWD/bin:$PATH"

cleanup() {
	status=$?
	for process in $builder $page $operator; do
		kill "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
	if [[ $status -ne 0 && -n "$sandbox" ]]; then
		echo "demo: failed; the end of the operator's log:" >&2
		tail -n 20 "$data/operator.log" >&2 2>/dev/null || true
		keep_logs
	fi
	if [[ -n "$sandbox" ]]; then
		drover-sandbox down --purge >/dev/null 2>&1 || echo "demo: drover-sandbox down --purge failed in $data" >&2
	fi
	rm -rf "$data"
	exit $status
}

# keep_logs copies the logs of a demo that failed, and what the cluster was like, to DEMO_LOGS.
keep_logs() {
	[[ -n "${DEMO_LOGS:-}" ]] || return 0
	mkdir -p "$DEMO_LOGS"
	cp -r "$data/operator.log" "$data/sandbox/logs" "$DEMO_LOGS" 2>/dev/null || true
	timeout 60 "$sandbox" run kubectl get --all-namespaces -o yaml \
		nodes,pods,pdb,jobs,events,machines,machinesets,nodemaintenances,mutexrunconfigs,machineconfigpools >"$DEMO_LOGS/objects.yaml" 2>&1 || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# build builds what is missing. Of a demo that is ended meanwhile it leaves no compiler behind.
build() {
	hack/build.sh "$@" &
	builder=$!
	wait "$builder"
	builder=""
}

title() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
# run shows a command and runs it.
run() {
	printf '$ %s\n' "$*"
	"$@"
}
# expect runs a command that must end with the given code.
expect() {
	local want=$1 got=0
	shift
	run "$@" || got=$?
	if [[ $got -ne $want ]]; then
		echo "demo: '$*' ended with $got, want $want" >&2
		return 1
	fi
}
drover-sandbox() { "$sandbox" "$@"; }
kubectl() { drover-sandbox run kubectl "$@"; }

# start_operator starts Drover with the providers $1, as a process with the permissions that config/ grants to it. Then the Deployment of it gets no Pods,
# and the API server cannot reach its webhook by the Service.
start_operator() {
	local server ca token
	kubectl scale deployment drover -n drover-system --replicas=0 >/dev/null
	kubectl delete validatingwebhookconfiguration drover --ignore-not-found >/dev/null
	server="$(kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.server}')"
	ca="$(kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}')"
	token="$(kubectl create token drover -n drover-system)"
	(
		umask 077
		cat >"$data/operator.kubeconfig" <<-YAML
			apiVersion: v1
			kind: Config
			current-context: demo
			contexts: [{name: demo, context: {cluster: demo, user: drover}}]
			clusters: [{name: demo, cluster: {server: "$server", certificate-authority-data: "$ca"}}]
			users: [{name: drover, user: {token: "$token"}}]
		YAML
	)
	printf '$ drover --kubeconfig=... --providers=%s\n' "$1"
	OPERATOR_NAMESPACE=drover-system drover --kubeconfig="$data/operator.kubeconfig" --providers="$1" --leader-elect=false \
		--metrics-bind-address=0 --health-probe-bind-address=0 --webhook-bind-address=0 2>"$data/operator.log" &
	operator=$!
}

machines=(-n openshift-machine-api)
# scaled waits until a MachineSet has as many Machines with Nodes as it wants.
scaled() {
	run kubectl wait "machineset/$1" "${machines[@]}" --for="jsonpath={.status.availableReplicas}=$2" --timeout=300s
}

# check_health has Machines of the MachineSet $1 replaced when their nodes are not Ready for two seconds.
check_health() {
	kubectl apply -f - <<-YAML
		apiVersion: machine.openshift.io/v1beta1
		kind: MachineHealthCheck
		metadata: {name: "$1", namespace: openshift-machine-api}
		spec:
		  selector: {matchLabels: {machine.openshift.io/cluster-api-machineset: "$1"}}
		  maxUnhealthy: 40%
		  unhealthyConditions:
		  - {type: Ready, status: "False", timeout: 2s}
		  - {type: Ready, status: Unknown, timeout: 2s}
	YAML
}
