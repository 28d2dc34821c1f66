package machines

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/vcenter"
)

// secondServer is the name of another vCenter.
const secondServer = "localhost"

// secondVCenter is another vCenter of the same cluster: it hangs, then refuses to answer, and then answers as the first one.
type secondVCenter struct {
	listener net.Listener
	// first is the address of the first one.
	first string

	mu    sync.Mutex
	mode  string
	conns []net.Conn
}

// What the second vCenter does.
const (
	hangs   = "hangs"
	refuses = "refuses"
	answers = "answers"
)

// secondVCenter makes another vCenter known, which hangs.
func (w *vsphereWorld) secondVCenter() *secondVCenter {
	w.Helper()
	listener, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	s := &secondVCenter{listener: listener, first: net.JoinHostPort(w.site.Host, w.site.Port), mode: hangs}
	w.Cleanup(func() {
		_ = listener.Close()
		s.set(refuses)
	})
	go s.serve()
	namespace := cluster.MachineNamespace
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		w.Fatal(err)
	}
	entry := fmt.Sprintf("vcenter:\n  second: {server: %s, port: %s, insecureFlag: true}\n", secondServer, port)
	config := strings.Replace(w.site.CloudConfig(), "vcenter:\n", entry, 1)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config-managed", Name: "kube-cloud-config"}}
	w.Merge(settings, fmt.Sprintf(`{"data":{"cloud.conf":%q}}`, config))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vsphere-cloud-credentials"}}
	w.Merge(secret, fmt.Sprintf(`{"stringData":{"%s.username":%q,"%[1]s.password":%[3]q}}`, secondServer, vcenter.Username, vcenter.Password))
	return s
}

// set changes the vCenter's mode, and closes existing connections so that the mode applies to all clients.
func (s *secondVCenter) set(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

func (s *secondVCenter) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.mode == refuses {
			_ = conn.Close()
		} else {
			s.conns = append(s.conns, conn)
		}
		if s.mode == answers {
			go s.forward(conn)
		}
		s.mu.Unlock()
	}
}

// forward connects a client with the first vCenter.
func (s *secondVCenter) forward(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	to, err := net.Dial("tcp", s.first)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() { _, _ = io.Copy(to, conn) }()
	_, _ = io.Copy(conn, to)
}

// isDown is a test: Machines of a vCenter that is down wait; Machines of another vCenter do not wait.
func (s *secondVCenter) isDown(w *vsphereWorld) {
	down := w.pool("down", 12, func(spec *machinev1beta1.VSphereMachineProviderSpec) { spec.Workspace.Server = secondServer })
	shows(down, corev1.ConditionUnknown, "reading the virtual machines of vCenter "+secondServer)
	up, begun := w.pool("up", 2, nil), time.Now()
	up.Runs(2)
	if took := time.Since(begun); took > 45*time.Second {
		w.Errorf("Machines of the other vCenter took %s", took)
	}
	s.set(refuses)
	machine := shows(down, corev1.ConditionUnknown, "vCenter "+secondServer+" is not available: connecting to vCenter "+secondServer)
	w.AwaitEvent("Machine", machine.Name, "FailedUpdate", "vCenter "+secondServer+" is not available")
	s.set(answers)
	// Drover tries to reach the vCenter once a minute, and looks at a Machine 30 seconds later.
	err := harness.WaitLonger(w.Context(), 3*time.Minute, time.Second, func() error {
		_, err := down.Running(12)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.leavesNothing(down)
	w.leavesNothing(up)
}
