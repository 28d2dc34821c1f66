#!/usr/bin/env bash
# Shows the life of nodes that are virtual machines of VMware vSphere, on a simulated vCenter: a MachineSet that starts from zero, a change of its
# template that reaches the nodes, a virtual machine that fails, a maintenance, and the end. VSPHERE_NODES is the size of the pool (default 10).
# Everything is gone when it ends; nothing outside a temporary folder is touched, but that DEMO_LOGS names a folder for the logs of a demo that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

nodes="${VSPHERE_NODES:-10}"
if ! [[ "$nodes" =~ ^[1-9][0-9]*$ ]]; then
	echo "demo: VSPHERE_NODES is '$nodes', want a number of nodes" >&2
	exit 2
fi
# shellcheck source=hack/demo-lib.sh
source hack/demo-lib.sh

build programs sandbox
sandbox="$PWD/bin/drover-sandbox"
begun=$SECONDS

title "Start a control plane, and a vCenter that is simulated"
drover-sandbox up --unsafe-no-fsync --components kwok,kube-controller-manager,kube-scheduler >"$data/up"
tail -n 1 "$data/up"
eval "$(tail -n 1 "$data/up")"
for folder in kubernetes vsphere; do
	kubectl apply --server-side --force-conflicts -k "config/$folder" >/dev/null
done
run drover-sandbox vsphere up --clone-delay 300ms --boot-delay 1s
kubectl apply --server-side --force-conflicts -k config/vsphere/openshift >/dev/null

title "Start Drover with the permissions that config/ grants"
start_operator '*,vsphere'

title "Declare a MachineSet without Machines: its capacity is known to autoscalers"
drover-sandbox vsphere machineset workers --replicas 0 >"$data/workers.json"
run kubectl apply -f "$data/workers.json"
run kubectl wait machineset/workers "${machines[@]}" \
	--for='jsonpath={.metadata.annotations.capacity\.cluster-autoscaler\.kubernetes\.io/cpu}' --timeout=60s
run kubectl get machineset workers "${machines[@]}" \
	-o custom-columns='NAME:.metadata.name,CPU:.metadata.annotations.capacity\.cluster-autoscaler\.kubernetes\.io/cpu,MEMORY:.metadata.annotations.capacity\.cluster-autoscaler\.kubernetes\.io/memory'

title "Scale it from zero to $nodes: virtual machines are cloned, tagged and powered on, and become nodes"
run kubectl scale machineset workers "${machines[@]}" --replicas="$nodes"
scaled workers "$nodes"
run kubectl get machines "${machines[@]}" \
	-o custom-columns='NAME:.metadata.name,PHASE:.status.phase,STATE:.metadata.annotations.machine\.openshift\.io/instance-state,PROVIDER ID:.spec.providerID,NODE:.status.nodeRef.name'
run kubectl get nodes

title "Change the template: labels and taints reach the nodes that exist already"
run kubectl patch machineset workers "${machines[@]}" --type=merge \
	-p '{"spec":{"template":{"spec":{"metadata":{"labels":{"team":"blue"}},"taints":[{"key":"example.com/dedicated","value":"blue","effect":"PreferNoSchedule"}]}}}}'
run kubectl-drover status workers --wait --timeout 120s
run kubectl get nodes -l team=blue

title "Let a virtual machine fail: a MachineHealthCheck replaces it"
check_health workers
failed="$(kubectl get machines "${machines[@]}" -o jsonpath='{.items[0].metadata.name}')"
run drover-sandbox vsphere power-off "$failed"
run kubectl wait "machine/$failed" "${machines[@]}" --for=delete --timeout=120s
scaled workers "$nodes"
run kubectl get events "${machines[@]}" --field-selector "involvedObject.name=$failed"

title "Take a node into maintenance: its Pods leave, and then it is given back"
kubectl create deployment web --image=example.com/web --replicas=3 >/dev/null
kubectl rollout status deployment web --timeout=120s >/dev/null
node="$(kubectl get pods -l app=web -o jsonpath='{.items[0].spec.nodeName}')"
run kubectl-drover maintenance start "$node" --reason "new firmware of its host"
run kubectl wait "nm/$node" --for=condition=Drained --timeout=120s
run kubectl get nm,node "$node"
run kubectl-drover maintenance end "$node" --wait

title "Delete the MachineSet: nodes are drained, and no virtual machine is left"
run kubectl delete machineset workers "${machines[@]}"
run kubectl wait machines --all "${machines[@]}" --for=delete --timeout=300s
run kubectl get nodes

title "Done in $((SECONDS - begun)) s; cleaning up"
