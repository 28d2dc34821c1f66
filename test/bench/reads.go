package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// bareReads measures how long it takes only to read Machines and Nodes: as kubectl drover reads them, and into the caches of controller-runtime.
func (f *fleet) bareReads(ctx context.Context) error {
	begun := time.Now()
	if err := f.listAll(ctx); err != nil {
		return err
	}
	f.column.add("the lists of kubectl drover, without it", time.Since(begun).Seconds(), inSeconds)
	begun = time.Now()
	if err := f.fillCaches(ctx); err != nil {
		return err
	}
	f.column.add("caches filled without Drover", time.Since(begun).Seconds(), inSeconds)
	return nil
}

// listAll reads all Machines and all Nodes in pages at the same time, and drops them.
func (f *fleet) listAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, page := range []client.ObjectList{&machinev1beta1.MachineList{}, &corev1.NodeList{}} {
		group.Go(func() error {
			for {
				if err := f.client.List(ctx, page, client.Limit(500), client.Continue(page.GetContinue())); err != nil || page.GetContinue() == "" {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// fillCaches fills caches with all Machines and Nodes, without the fields that no controller needs, and drops them.
func (f *fleet) fillCaches(ctx context.Context) error {
	options := cache.Options{Scheme: f.client.Scheme(), DefaultTransform: cache.TransformStripManagedFields()}
	full, err := cache.New(f.cluster.Admin(), options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, kind := range []client.Object{&corev1.Node{}, &machinev1beta1.Machine{}} {
		if _, err := full.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- full.Start(ctx) }()
	synced := full.WaitForCacheSync(ctx)
	cancel()
	if err := <-ended; err != nil || synced {
		return err
	}
	return errors.New("the caches were not filled")
}

// plugin measures commands of kubectl drover for the whole cluster, and for one Node.
func (f *fleet) plugin(ctx context.Context, aims scaleAims) error {
	file, err := f.changedSets(ctx)
	if err != nil {
		return err
	}
	nodes, err := f.nodes(ctx, client.Limit(1))
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"status"}, {"plan", "-f", file}, {"explain", nodes[0].Name}} {
		name := "kubectl drover " + args[0]
		first, memory, err := f.runPlugin(ctx, args)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.column.add(name+": first output", first, inSeconds, atMost(aims.output))
		f.column.add(name+": peak memory", memory, inMiB, atMost(aims.pluginMemory))
	}
	return nil
}

// changedSets writes the MachineSets with another label to a file.
func (f *fleet) changedSets(ctx context.Context) (file string, err error) {
	var text bytes.Buffer
	for _, p := range f.pools {
		set := &machinev1beta1.MachineSet{}
		if err := f.client.Get(ctx, machineSet(p.name), set); err != nil {
			return "", err
		}
		labels := map[string]string{"bench.drover.dev/plan": "another"}
		maps.Copy(labels, set.Spec.Template.Spec.Labels)
		set.Spec.Template.Spec.Labels = labels
		set.APIVersion, set.Kind = machinev1beta1.GroupVersion.String(), "MachineSet"
		set.ObjectMeta = harness.Meta(p.name)
		if err := json.NewEncoder(&text).Encode(set); err != nil {
			return "", err
		}
		text.WriteString("---\n")
	}
	file = filepath.Join(f.dir, "machinesets.yaml")
	return file, os.WriteFile(file, text.Bytes(), 0o600)
}

// runPlugin runs a command, and returns when its first output came, in seconds, and its largest resident size in MiB, which is read every few
// milliseconds.
func (f *fleet) runPlugin(ctx context.Context, args []string) (first, memory float64, err error) {
	command := exec.CommandContext(ctx, filepath.Join("bin", "kubectl-drover"), append(args, "--namespace", cluster.MachineNamespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+f.cluster.AdminKubeconfig())
	var complaints bytes.Buffer
	output := &firstWrite{}
	command.Stdout, command.Stderr = output, &complaints
	begun := time.Now()
	if err := command.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
			if now, err := peakMemory(command.Process.Pid); err == nil {
				memory = max(memory, now)
			}
		}
	}
	// With 2 the command plan says that something would change.
	var exit *exec.ExitError
	if errors.As(err, &exit) && args[0] == "plan" && exit.ExitCode() == 2 {
		err = nil
	}
	if err != nil || output.at.IsZero() {
		return 0, 0, fmt.Errorf("no output, or an error: %w: %s", err, complaints.Bytes())
	}
	return output.at.Sub(begun).Seconds(), memory, nil
}

// firstWrite keeps the time of the first write and drops what is written.
type firstWrite struct{ at time.Time }

// Write implements io.Writer.
func (f *firstWrite) Write(text []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	return len(text), nil
}
