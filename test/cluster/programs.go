package cluster

import (
	_ "embed"
	"fmt"
	"strconv"
)

//go:embed files/audit-policy.yaml
var auditPolicy []byte

//go:embed files/kwok.yaml
var kwokConfig []byte

// configFiles are the files that components read, by name.
var configFiles = map[string][]byte{"audit-policy.yaml": auditPolicy, "kwok.yaml": kwokConfig}

// arguments returns the command line of a component.
func arguments(component string, l layout, s *state) []string {
	switch component {
	case Etcd:
		return etcdArguments(l, s)
	case APIServer:
		return apiserverArguments(l, s)
	case ControllerManager:
		return append(clientArguments(component, l, s), controllerManagerArguments(l)...)
	case Scheduler:
		return clientArguments(component, l, s)
	default:
		return kwokArguments(l, s)
	}
}

func etcdArguments(l layout, s *state) []string {
	client, peer := localURL(s.Ports[Etcd]), localURL(s.Ports[peerPort])
	args := []string{
		"--name=sandbox",
		"--data-dir=" + l.etcdData(),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--cert-file=" + l.cert(Etcd),
		"--key-file=" + l.key(Etcd),
		"--client-cert-auth=true",
		"--trusted-ca-file=" + l.cert("etcd-ca"),
		"--peer-cert-file=" + l.cert(Etcd),
		"--peer-key-file=" + l.key(Etcd),
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + l.cert("etcd-ca"),
		// A pool of thousands of nodes with pods outgrows etcd's default of 2 GiB within a long benchmark.
		"--quota-backend-bytes=8589934592",
		"--auto-compaction-mode=periodic",
		"--auto-compaction-retention=5m",
		"--log-level=warn",
		// A lone member waits one election timeout before it leads; there is no other member to wait for.
		"--heartbeat-interval=100",
		"--election-timeout=500",
	}
	if s.UnsafeNoFsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func apiserverArguments(l layout, s *state) []string {
	return []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(s.Ports[APIServer]),
		// The kubernetes Service may not point to a loopback address, and no pod is there to use it.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/16",
		"--allow-privileged=true",
		"--anonymous-auth=false",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		// It gives every new node the taint not-ready, which kube-controller-manager takes off a ready one again: two
		// requests per node more, and a taint that stays where that does not run.
		"--disable-admission-plugins=TaintNodesByCondition",
		"--client-ca-file=" + l.cert("ca"),
		"--tls-cert-file=" + l.cert(APIServer),
		"--tls-private-key-file=" + l.key(APIServer),
		"--etcd-servers=" + localURL(s.Ports[Etcd]),
		"--etcd-cafile=" + l.cert("etcd-ca"),
		"--etcd-certfile=" + l.cert("etcd-client"),
		"--etcd-keyfile=" + l.key("etcd-client"),
		"--kubelet-certificate-authority=" + l.cert("ca"),
		// The names of nodes are in no DNS.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + l.cert("kubelet-client"),
		"--kubelet-client-key=" + l.key("kubelet-client"),
		"--requestheader-client-ca-file=" + l.cert("front-proxy-ca"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.cert("front-proxy-client"),
		"--proxy-client-key-file=" + l.key("front-proxy-client"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + l.key("service-account"),
		"--service-account-key-file=" + l.cert("service-account"),
		"--audit-policy-file=" + l.config("audit-policy.yaml"),
		"--audit-log-path=" + l.audit(),
		// No rotation: an offset into the log stays good as long as the sandbox lives.
		"--audit-log-maxsize=0",
		"--delete-collection-workers=8",
		// One client may use most of a small machine; the server's fairness sorts them out.
		"--max-requests-inflight=800",
		"--max-mutating-requests-inflight=400",
		"--shutdown-delay-duration=0s",
		// There is no kube-proxy: a webhook's Service is called at the addresses of its Pods.
		"--enable-aggregator-routing=true",
	}
}

// clientArguments are what kube-controller-manager and kube-scheduler have in common. Neither elects a leader, since
// there is one of each, and a killed one would wait out its own lease when it comes back.
func clientArguments(component string, l layout, s *state) []string {
	kubeconfig := l.kubeconfig(component)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(s.Ports[component]),
		"--tls-cert-file=" + l.cert(component),
		"--tls-private-key-file=" + l.key(component),
		"--client-ca-file=" + l.cert("ca"),
		"--requestheader-client-ca-file=" + l.cert("front-proxy-ca"),
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func controllerManagerArguments(l layout) []string {
	return []string{
		"--use-service-account-credentials=true",
		"--root-ca-file=" + l.cert("ca"),
		"--service-account-private-key-file=" + l.key("service-account"),
		"--cluster-signing-cert-file=" + l.cert("ca"),
		"--cluster-signing-key-file=" + l.key("ca"),
		"--allocate-node-cidrs=false",
		// Longer than leaseSeconds, where a kubelet's 40 s go with 50 s.
		"--node-monitor-grace-period=200s",
		// It writes an annotation to all nodes whenever their number passes a threshold. The name starts with a minus
		// because that turns it off.
		"--controllers=*,-ttl-controller",
	}
}

// leaseSeconds is for how long a node's lease is good; kwok renews it after a quarter of that. A kubelet's is good for
// 40 s, and the renewals of 5,000 nodes every 10 s would take half of a small machine.
const leaseSeconds = 160

const kubeletLeaseSeconds = 40

func kwokArguments(l layout, s *state) []string {
	lease := leaseSeconds
	switch {
	case s.NoNodeLeases:
		lease = 0
	case s.KubeletLeases:
		lease = kubeletLeaseSeconds
	}
	return []string{
		"--kubeconfig=" + l.kubeconfig(Kwok),
		"--config=" + l.config("kwok.yaml"),
		"--node-lease-duration-seconds=" + strconv.Itoa(lease),
		"--v=WARN", // one level down it logs every lease
		// Only its health endpoint is of use here: it answers once all of kwok's controllers run.
		"--server-address=" + localAddress(s.Ports[Kwok]),
	}
}

func localAddress(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func localURL(port int) string { return "https://" + localAddress(port) }
