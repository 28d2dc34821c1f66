#!/usr/bin/env bash
# Shows the main job on a control plane of its own: the template of a MachineSet changes, and its existing nodes follow in place. Then the MachineSet
# is scaled, a node that fails is replaced, so is one on a simulated vSphere, another is taken into maintenance although a PodDisruptionBudget blocks
# it, six nodes get a taint that evicts Pods, the Machines of a MachineSet are replaced and the change is undone, and three nodes are upgraded.
# DEMO_NODES is the size of the pool (default 50). With DEMO_UI=1 it ends with the address of the page of kubectl drover ui, and keeps the cluster
# until Enter. Everything is gone when it ends; nothing outside a temporary folder is touched, but that DEMO_LOGS names a folder for the logs of a demo
# that fails. What is missing in bin/ is built first. The demo begins when the control plane can: kube-controller-manager and kube-scheduler, which the
# first half does without, may still be compiling then.
set -euo pipefail
cd "$(dirname "$0")/.."

nodes="${DEMO_NODES:-50}"
if ! [[ "$nodes" =~ ^[1-9][0-9]*$ ]]; then
	echo "demo: DEMO_NODES is '$nodes', want a number of nodes" >&2
	exit 2
fi
# shellcheck source=hack/demo-lib.sh
source hack/demo-lib.sh

if hack/build.sh --check sandbox; then
	build programs sandbox
	components=kwok,kube-controller-manager,kube-scheduler
	sandbox="$PWD/bin/drover-sandbox"
else
	build programs core
	components=kwok
	sandbox="$data/drover-sandbox-core"
fi
begun=$SECONDS

title "Start a control plane: etcd, kube-apiserver, ${components//,/, }, each a process"
drover-sandbox up --unsafe-no-fsync --components "$components" >"$data/up"
tail -n 1 "$data/up"
eval "$(tail -n 1 "$data/up")"
if [[ "$components" == kwok ]]; then
	nice hack/build.sh sandbox &
	builder=$!
fi

title "Start Drover with the permissions that config/ grants"
# The last part simulates the upgrade of an OpenShift cluster. kwok simulates the nodes throughout.
for folder in kubernetes kwok upgrade vsphere; do
	kubectl apply --server-side --force-conflicts -k "config/$folder" >/dev/null
done
start_operator "*,kwok,vsphere"

title "Create a MachineSet of $nodes nodes, which kwok simulates"
kubectl apply -f - <<YAML
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: workers, namespace: openshift-machine-api}
spec:
  replicas: $nodes
  selector: {matchLabels: {machine.openshift.io/cluster-api-machineset: workers}}
  template:
    metadata: {labels: {machine.openshift.io/cluster-api-machineset: workers}}
    spec:
      metadata: {labels: {team: green}}
      providerSpec:
        value:
          apiVersion: kwok.provider.drover.dev/v1alpha1
          kind: KwokMachineProviderSpec
          instanceType: kwok.fake
          labels: {node-role.kubernetes.io/worker: ""}
          taints: [{key: example.com/by-an-admin, value: keep, effect: PreferNoSchedule}]
YAML
scaled workers "$nodes"
run kubectl-drover status workers --wait --timeout 300s
run kubectl get machineset,nodes "${machines[@]}" --no-headers | sed -n 1,5p
chosen="$(kubectl get nodes -o jsonpath='{.items[0].metadata.name}')"

title "Preview a change of the MachineSet: nothing is written"
cat >"$data/change.json" <<'JSON'
{"spec":{"template":{"spec":{
  "metadata":{"labels":{"team":"blue"},"annotations":{"example.com/owner":"Team Blue <blue@example.com>"}},
  "taints":[{"key":"example.com/dedicated","value":"blue","effect":"PreferNoSchedule"}]}}}}
JSON
kubectl patch machineset workers -n openshift-machine-api --type=merge --patch-file "$data/change.json" --dry-run=client -o yaml >"$data/change.yaml"
expect 2 kubectl-drover plan workers -f "$data/change.yaml"

title "Apply it: a label, an annotation and a taint reach $nodes existing nodes"
run kubectl patch machineset workers -n openshift-machine-api --type=merge --patch-file "$data/change.json"
run kubectl-drover status workers --wait --watch --timeout 600s
expect 0 kubectl-drover plan workers

title "Keys of other writers stay: the administrator's taint is on every node"
count() { kubectl get nodes -o "jsonpath={range .items[*]}{.metadata.name}{' '}{.spec.taints[*].key}{'\n'}{end}" | grep -c "$1" || true; }
for key in example.com/by-an-admin example.com/dedicated; do
	found="$(count "$key")"
	echo "$key: $found of $nodes nodes"
	[[ "$found" == "$nodes" ]]
done

title "Edit one node by hand: Drover reverts it, and shows who owns each key"
run kubectl label node "$chosen" team=red --overwrite
for _ in $(seq 100); do
	[[ "$(kubectl get node "$chosen" -o jsonpath='{.metadata.labels.team}')" == blue ]] && break
done
run kubectl get node "$chosen" -L team
run kubectl-drover explain node "$chosen"

title "Show the status and the events of the MachineSet"
run kubectl-drover status
run kubectl get events -n openshift-machine-api --field-selector involvedObject.name=workers

title "Add two nodes: they get the labels and taints when they register"
run kubectl scale machineset workers "${machines[@]}" --replicas=$((nodes + 2))
scaled workers $((nodes + 2))
run kubectl-drover status workers --wait --timeout 120s
blue="$(kubectl get nodes -l team=blue --no-headers | wc -l)"
echo "team=blue: $blue of $((nodes + 2)) nodes"
[[ "$blue" == $((nodes + 2)) ]]

title "Let a node fail: a MachineHealthCheck replaces its Machine"
check_health workers
run kubectl annotate node "$chosen" sandbox.drover.io/ready=false
run kubectl wait "machine/$chosen" "${machines[@]}" --for=delete --timeout=120s
scaled workers $((nodes + 2))
run kubectl get events "${machines[@]}" --field-selector "involvedObject.name=$chosen"
run kubectl get machinesets,machinehealthchecks "${machines[@]}"

title "Beside them, create a MachineSet of virtual machines, on a simulated vSphere; add one"
run drover-sandbox vsphere up --boot-delay 500ms
kubectl apply --server-side --force-conflicts -k config/vsphere/openshift >/dev/null # may read where the vCenter is
drover-sandbox vsphere machineset virtual --replicas 2 | kubectl apply -f -
scaled virtual 2
run kubectl scale machineset virtual "${machines[@]}" --replicas=3
scaled virtual 3
run kubectl get machines,nodes "${machines[@]}" -l machine.openshift.io/cluster-api-machineset=virtual -o wide

title "Power one of them off: its Machine is replaced"
check_health virtual
failed="$(kubectl get machines "${machines[@]}" -l machine.openshift.io/cluster-api-machineset=virtual -o jsonpath='{.items[0].metadata.name}')"
run drover-sandbox vsphere power-off "$failed"
run kubectl wait "machine/$failed" "${machines[@]}" --for=delete --timeout=120s
scaled virtual 3

if [[ -n "$builder" ]]; then
	title "Start kube-controller-manager and kube-scheduler, which are built by now"
	wait "$builder"
	builder=""
	sandbox="$PWD/bin/drover-sandbox"
	drover-sandbox up --components "$components,kube-controller-manager,kube-scheduler" >/dev/null
fi

title "Run an application whose PodDisruptionBudget lets no Pod go"
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.com/web}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  maxUnavailable: 0
  selector: {matchLabels: {app: web}}
YAML
kubectl rollout status deployment web --timeout=120s >/dev/null
run kubectl get pods,pdb -o wide
node="$(kubectl get pods -l app=web -o jsonpath='{.items[0].spec.nodeName}')"
# state shows all of a node that a maintenance touches.
state() {
	kubectl get node "$node" \
		-o go-template='cordoned: {{.spec.unschedulable}}{{"\n"}}taints: {{.spec.taints}}{{"\n"}}labels: {{.metadata.labels}}{{"\n"}}annotations: {{.metadata.annotations}}{{"\n"}}'
}
state >"$data/before"

title "Plan the maintenance of $node: see what would block it"
expect 2 kubectl-drover plan --maintenance "$node"

title "Start it: the node is cordoned, and the status says which Pod cannot leave, and why"
run kubectl-drover maintenance start "$node" --reason "new disks"
run kubectl wait "nm/$node" --for='jsonpath={.status.conditions[?(@.type=="Drained")].reason}=Blocked' --timeout=60s
run kubectl get nm -o wide
run kubectl-drover drain-status "$node"

title "Relax the budget: the drain continues"
run kubectl patch pdb web --type=merge -p '{"spec":{"maxUnavailable":1}}'
run kubectl wait "nm/$node" --for=condition=Drained --timeout=60s
run kubectl get nm,node "$node"
run kubectl get events --field-selector "involvedObject.kind=NodeMaintenance"

title "End the maintenance: the node is as it was before"
run kubectl-drover maintenance end "$node" --wait
state >"$data/after"
(cd "$data" && run diff before after) && echo "no difference"

title "Declare labels for a group of nodes that a selector picks: they follow in waves"
batch="$(kubectl get nodes -l team=blue -o jsonpath='{.items[-6:].metadata.name}')"
# shellcheck disable=SC2086 # they are six names
kubectl label node $batch pool=batch >/dev/null
cat >"$data/batch.yaml" <<'YAML'
apiVersion: drover.dev/v1alpha1
kind: NodeGroup
metadata: {name: batch}
spec:
  nodes: {selector: {matchLabels: {pool: batch}}}
  metadata: {labels: {tier: batch}}
  rollout: {firstWave: 1, maxInFlight: 2}
  disruption: {maxUnavailable: 2}
YAML
run kubectl apply -f "$data/batch.yaml"
run kubectl-drover rollout status nodegroup/batch --timeout=120s
run kubectl get nodes -l tier=batch

title "Give them a taint with the effect NoExecute: Pods leave within their PodDisruptionBudget before it is set"
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart}
spec:
  replicas: 6
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec:
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - {weight: 100, preference: {matchExpressions: [{key: pool, operator: In, values: [batch]}]}}
      containers: [{name: cart, image: example.com/cart}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: cart}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: cart}}
YAML
kubectl rollout status deployment cart --timeout=120s >/dev/null
on_batch() { kubectl get pods -l app=cart -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | grep -cFx "$(tr ' ' '\n' <<<"$batch")" || true; }
echo "Pods of cart on these nodes: $(on_batch) of 6"
sed -i 's|labels: {tier: batch}|&, taints: [{key: example.com/batch, effect: NoExecute}]|' "$data/batch.yaml"
expect 2 kubectl-drover plan -f "$data/batch.yaml" | sed -n 1,14p
run kubectl apply -f "$data/batch.yaml"
run kubectl-drover rollout status nodegroup/batch --timeout=180s
run kubectl get nodegroups
left="$(on_batch)"
echo "Pods of cart on these nodes: $left of 6"
[[ "$left" == 0 ]]
kubectl rollout status deployment cart --timeout=120s

title "Change the template of a MachineSet: its Machines are replaced, and each new node is Ready before an old one goes"
kubectl create -f - <<'YAML'
apiVersion: drover.dev/v1alpha1
kind: NodeGroup
metadata: {name: database}
spec:
  nodes: {machineSets: {namespace: openshift-machine-api, names: [database]}}
  replacement: {type: RollingUpdate, maxSurge: 1}
---
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: database, namespace: openshift-machine-api}
spec:
  replicas: 3
  selector: {matchLabels: {machine.openshift.io/cluster-api-machineset: database}}
  template:
    metadata: {labels: {machine.openshift.io/cluster-api-machineset: database}}
    spec:
      providerSpec:
        value: {apiVersion: kwok.provider.drover.dev/v1alpha1, kind: KwokMachineProviderSpec, instanceType: kwok.small, bootDelay: 1s}
YAML
scaled database 3
# Only what Drover has seen can be undone.
for _ in $(seq 100); do
	kubectl-drover rollout history machineset/database >/dev/null 2>&1 && break
done
run kubectl patch machineset database "${machines[@]}" --type=merge \
	-p '{"spec":{"template":{"spec":{"providerSpec":{"value":{"instanceType":"kwok.large"}}}}}}'
# replaced waits until all Machines have a type.
replaced() {
	run kubectl-drover rollout status machineset/database --timeout=180s
	run kubectl get machines "${machines[@]}" -l machine.openshift.io/cluster-api-machineset=database
	[[ "$(kubectl get machines "${machines[@]}" -l machine.openshift.io/cluster-api-machineset=database \
		-o jsonpath='{.items[*].spec.providerSpec.value.instanceType}')" == "$1 $1 $1" ]]
}
replaced kwok.large

title "Undo the change: the Machines are replaced again"
run kubectl-drover rollout history machineset/database
run kubectl-drover rollout undo machineset/database
replaced kwok.small

title "Gate a simulated upgrade of OpenShift: a Job runs before each node of MachineConfigPool infra is released"
run drover-sandbox openshift init --masters 1 --workers 0 --pool infra --pool canary --drain-delay 200ms --reboot-delay 500ms
kubectl patch machineconfigpool canary --type=merge \
	-p '{"spec":{"nodeSelector":{"matchLabels":{"node-role.kubernetes.io/canary":null,"node-role.kubernetes.io/worker":""},"matchExpressions":[{"key":"isCanary","operator":"Exists"}]}}}'
gated="$(kubectl get nodes -l team=blue -o jsonpath='{.items[0:3].metadata.name}')"
# shellcheck disable=SC2086 # they are three names
kubectl label node $gated node-role.kubernetes.io/infra=
kubectl create namespace numo
kubectl apply -f - <<'YAML'
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRule
metadata: {name: database, namespace: numo}
spec:
  jobName: fail-over
  jobNamespace: numo
  jobSpec: &job
    template:
      metadata: {annotations: {test.drover.dev/completion-delay: 500ms}}
      spec:
        restartPolicy: Never
        tolerations: [{operator: Exists}]
        containers: [{name: job, image: example.com/fail-over}]
  cleanUpJobSpec: *job
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexTarget
metadata: {name: infra, namespace: numo}
spec: {machineConfigPools: [infra]}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRunConfig
metadata: {name: infra, namespace: numo}
spec:
  canary: {name: canary}
  mutexRules: [{name: database}]
  mutexTargets: [{name: infra}]
YAML
run kubectl wait mutexrunconfig/infra -n numo --for='jsonpath={.status.phase}=Idle' --timeout=60s
kubectl get mcp -o custom-columns=NAME:.metadata.name,PAUSED:.spec.paused,SELECTOR:.spec.nodeSelector >"$data/pools-before"
run drover-sandbox openshift upgrade --to 4.17.3
run kubectl-drover upgrade plan infra
run timeout 180 kubectl-drover upgrade status infra --watch
run kubectl get jobs -n numo -o custom-columns=NAME:.metadata.name,NODE:.metadata.annotations.upgrade\\.drover\\.dev/node,DONE:.status.succeeded
kubectl get mcp -o custom-columns=NAME:.metadata.name,PAUSED:.spec.paused,SELECTOR:.spec.nodeSelector >"$data/pools-after"
(cd "$data" && run diff pools-before pools-after) && echo "no difference: the pools are as they were"

if [[ -n "${DEMO_UI:-}" ]]; then
	title "Done in $((SECONDS - begun)) s; look at the fleet in a browser"
	kubectl-drover ui --write >"$data/page" &
	page=$!
	grep -m 1 '^Open ' < <(tail -n +1 -f --pid="$page" "$data/page")
	read -r -p "Press Enter to end the demo and to remove the cluster. " || true
	printf '\n'
	exit 0
fi
title "Done in $((SECONDS - begun)) s; cleaning up"
