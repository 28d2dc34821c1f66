// Package realnode gives a sandbox nodes with real kubelets and real containers: containerd, a kubelet and the Pods' network in a network
// namespace of their own, so that logs, exec, and webhooks that run in Pods work as on a cluster. It needs root and some Debian packages;
// Missing says what is not there.
//
// The addresses stay on the machine. Node i has 10.200.i.2, its Pods have 10.201.i.0/24, and in its network namespace the API server is at
// 10.0.0.1:443, as the Service kubernetes says to every Pod. There is no kube-proxy and no DNS.
package realnode
