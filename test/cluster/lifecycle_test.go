package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/test/cluster"
)

func TestCluster_EveryComponentRuns(t *testing.T) {
	eventually(t, "every component runs", func(ctx context.Context) error {
		for _, status := range env.Status(ctx) {
			if status.State != "running" || status.PID == 0 || status.Port == 0 || status.Memory == 0 {
				return fmt.Errorf("status %+v", status)
			}
		}
		return nil
	})
}

func TestCluster_KilledComponentsKeepTheirData(t *testing.T) {
	ctx := t.Context()
	clients := clientFor(t, env.Admin(), nil)
	maps := clients.CoreV1().ConfigMaps("default")
	for _, component := range []string{cluster.Etcd, cluster.APIServer} {
		name := "kept-" + component
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		// After the first round the API server may not have found etcd again yet.
		eventually(t, "an object can be written", func(ctx context.Context) error {
			_, err := maps.Create(ctx, object, metav1.CreateOptions{})
			return err
		})
		if err := env.Kill(component, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := env.Kill(component, syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("killing a dead %s gave %v, want os.ErrProcessDone", component, err)
		}
		// Without etcd the API server keeps a request for a minute before it gives up.
		short, cancel := context.WithTimeout(ctx, time.Second)
		if _, err := maps.Get(short, name, metav1.GetOptions{}); err == nil {
			t.Errorf("the API answers without %s", component)
		}
		cancel()
		if err := env.StartComponent(ctx, component); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the object is back", func(ctx context.Context) error {
			_, err := maps.Get(ctx, name, metav1.GetOptions{})
			return err
		})
	}
	if err := env.Kill("kubelet", syscall.SIGKILL); err == nil {
		t.Error("killing a component that is not there gave no error")
	}
}

// TestCluster_EndsWithItsParent kills a process that started a control plane and then resumes that control plane's folder.
func TestCluster_EndsWithItsParent(t *testing.T) {
	dir := t.TempDir()
	pids, kill := startOrphan(t, dir)
	first, err := cluster.Open(dir, cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	_, err = clientFor(t, first.Admin(), nil).CoreV1().ConfigMaps("default").Create(t.Context(), object,
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kill()
	eventually(t, "the components are gone", func(context.Context) error {
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
		return nil
	})
	second, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	// The old credentials are still good: both are of the same authority.
	if got := whoAmI(t, second.Admin(), nil); got != "kubernetes-admin" {
		t.Errorf("administrator is %q", got)
	}
	_, err = clientFor(t, second.Admin(), nil).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Errorf("the object of the first run: %v", err)
	}
	if _, err := cluster.Start(t.Context(), cluster.Options{Dir: dir}); err == nil {
		t.Error("a second control plane started in a folder that is in use")
	}
}

// startOrphan starts a control plane in a process of its own and returns the components' processes and a function that
// kills their parent.
func startOrphan(t *testing.T, dir string) (pids []int, kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), orphanEnv+"="+dir)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	t.Cleanup(kill)
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		if scanner.Text() == "started" {
			return pids, kill
		}
		pid, err := strconv.Atoi(scanner.Text())
		if err != nil {
			t.Fatalf("the process that starts a control plane said %q", scanner.Text())
		}
		pids = append(pids, pid)
	}
	t.Fatal("the process that starts a control plane ended")
	return nil, nil
}
