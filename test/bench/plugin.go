package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
)

// planChanges is the exit code of kubectl drover plan where something would change.
const planChanges = 2

// pluginRun is one run of a command of kubectl drover.
type pluginRun struct {
	Command string `json:"command"`
	// First is when the first output came, Seconds when the command ended.
	First   float64 `json:"firstOutputSeconds"`
	Seconds float64 `json:"seconds"`
	// PeakMemory is the largest resident size of the process in MiB, looked at every few milliseconds.
	PeakMemory float64 `json:"peakMemoryMiB"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// Requests are those of the command. Whole are lists among them that were not asked for in pages, but those of Machines, which are read while they
	// come.
	Requests int `json:"requests"`
	Whole    int `json:"listsWithoutPages"`
}

// plugin runs commands of kubectl drover as a user would who looks at the whole cluster, and at one Node.
func (b *stage) plugin(ctx context.Context) ([]pluginRun, error) {
	file, err := b.changedSets(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(file)) }()
	var nodes corev1.NodeList
	if err := b.Client.List(ctx, &nodes, client.Limit(1)); err != nil {
		return nil, err
	}
	var runs []pluginRun
	for _, args := range [][]string{{"status"}, {"plan", "-f", file}, {"explain", nodes.Items[0].Name}} {
		run, err := b.runPlugin(ctx, args)
		if err != nil {
			return nil, fmt.Errorf("kubectl drover %s: %w", args[0], err)
		}
		bench.Progress("kubectl drover %s: first output after %.1f s, %.0f MiB, %.1f s of processor time, %d requests",
			run.Command, run.First, run.PeakMemory, run.CPUSeconds, run.Requests)
		runs = append(runs, run)
	}
	return runs, nil
}

// changedSets writes the MachineSets with another label to a file.
func (b *stage) changedSets(ctx context.Context) (string, error) {
	var text []byte
	for _, p := range b.pools {
		set := &machinev1beta1.MachineSet{}
		if err := b.Client.Get(ctx, b.set(p), set); err != nil {
			return "", err
		}
		declared := map[string]string{"bench.drover.dev/plan": "another"}
		maps.Copy(declared, set.Spec.Template.Spec.Labels)
		set.Spec.Template.Spec.Labels = declared
		set.TypeMeta = metav1.TypeMeta{APIVersion: machinev1beta1.GroupVersion.String(), Kind: "MachineSet"}
		set.ObjectMeta = metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace, Labels: set.Labels, Annotations: set.Annotations}
		one, err := json.Marshal(set)
		if err != nil {
			return "", err
		}
		text = append(append(text, one...), "\n---\n"...)
	}
	folder, err := os.MkdirTemp("", "drover-bench-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "machinesets.yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// runPlugin runs one command.
func (b *stage) runPlugin(ctx context.Context, args []string) (pluginRun, error) {
	r := pluginRun{Command: args[0]}
	mark, err := b.Cluster.Audit().Sync(ctx)
	if err != nil {
		return r, err
	}
	command := exec.CommandContext(ctx, b.settings.plugin, append(args, "--namespace", b.namespace())...)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.Cluster.AdminKubeconfig())
	var complaints bytes.Buffer
	output := &firstWrite{}
	command.Stdout, command.Stderr = output, &complaints
	begun := time.Now()
	if err := command.Start(); err != nil {
		return r, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Its exit code is looked at below.
		_ = command.Wait()
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
			if now, err := bench.PeakMemory(command.Process.Pid); err == nil {
				r.PeakMemory = max(r.PeakMemory, now)
			}
		}
	}
	r.Seconds = time.Since(begun).Seconds()
	if code := command.ProcessState.ExitCode(); code != map[string]int{"plan": planChanges}[r.Command] {
		return r, fmt.Errorf("exit code %d: %s", code, complaints.Bytes())
	}
	if output.at.IsZero() {
		return r, fmt.Errorf("it printed nothing: %s", complaints.Bytes())
	}
	r.First = output.at.Sub(begun).Seconds()
	r.CPUSeconds = (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds()
	err = b.countLists(ctx, mark, &r)
	return r, err
}

// firstWrite has the time at which something was first written to it.
type firstWrite struct{ at time.Time }

// Write remembers when it was first called, and drops the text.
func (f *firstWrite) Write(text []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	return len(text), nil
}

// countLists counts the requests of a command since a mark.
func (b *stage) countLists(ctx context.Context, mark cluster.AuditMark, r *pluginRun) error {
	if _, err := b.Cluster.Audit().Sync(ctx); err != nil {
		return err
	}
	return b.Cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		if !strings.HasPrefix(e.UserAgent, "kubectl-drover/") {
			return nil
		}
		r.Requests++
		asked, err := url.Parse(e.URI)
		if err == nil && e.Verb == "list" && e.Resource != "machines" && !asked.Query().Has("limit") {
			r.Whole++
		}
		return err
	})
}
