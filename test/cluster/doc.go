// Package cluster runs a real Kubernetes control plane on this machine and drives it from a Go test.
//
// The programs (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok) come from one binary,
// drover-sandbox, which hack/build.sh builds; this package starts each as a process of its own, so that a test
// can kill one and start it again. TLS, RBAC, admission and the audit log are as in a real cluster: every identity has a
// client certificate or a token, there are no anonymous requests, and the audit log names every request.
//
// A test package starts one control plane in its TestMain:
//
//	var env *cluster.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{}, &env)) }
//
// A control plane that Start started ends with the process that started it, even when that is killed.
package cluster
