// Package policy keeps the parameters of the ValidatingAdmissionPolicy drover-nodegroup-members: the labels and annotations of Nodes that kubelets
// may not change, since NodeGroups select Nodes by them, or count them against their budgets.
//
// The parameters are a ConfigMap and not the NodeGroups themselves. After each of its starts an API server does not find a kind that a CRD defines
// for half a minute, and while it does not find the kind of a policy's parameters it denies whatever the policy is for, from everyone: here, all
// updates of Nodes (https://github.com/kubernetes/apiserver/blob/v0.37.1/pkg/admission/plugin/policy/generic/policy_source.go).
package policy
