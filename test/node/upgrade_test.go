package node

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
	"github.com/drover-io/drover/test/realnode"
)

// testUpgrade: the Jobs of a gated upgrade really run, away from the node that they are for, and print what they were given.
func testUpgrade(t *testing.T) {
	w := world(t)
	if err := env.InstallOpenShift(t.Context(), cluster.OpenShiftOptions{Version: "4.17.0"}); err != nil {
		t.Fatal(err)
	}
	// Nothing is rebooted: the kubelets are real.
	w.SimulateOpenShift(openshift.Options{ControlPlane: 2 * time.Second, RebootBy: openshift.RebootSkip})
	w.CreateWithCleanup(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gate"}})
	for _, made := range []client.Object{
		harness.NewCanary("canary", "isCanary"), openshift.NewPool("apps"), rule(t),
		&v1alpha1.MutexTarget{ObjectMeta: meta("gate", "apps"), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"apps"}}},
	} {
		w.CreateWithCleanup(made)
	}
	kubectl(w, "label", "node", first, second, "node-role.kubernetes.io/apps=")
	at(w, "4.17.0")
	run := &v1alpha1.MutexRunConfig{ObjectMeta: meta("gate", "run"), Spec: v1alpha1.MutexRunConfigSpec{
		Canary: v1alpha1.Canary{Name: "canary"}, MutexRules: []v1alpha1.Reference{{Name: "check"}}, MutexTargets: []v1alpha1.Reference{{Name: "apps"}},
		// Always open: but the image must know the time zone.
		Windows: []v1alpha1.Window{{Schedule: "* * * * *", Duration: metav1.Duration{Duration: time.Minute}, TimeZone: "Europe/Berlin"}},
	}}
	if err := w.Client.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	phase(w, run, v1alpha1.PhaseIdle, nil)
	if err := openshift.Upgrade(t.Context(), w.Client, "4.17.1"); err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	phase(w, run, v1alpha1.PhaseDone, func() { listen(w, lines) })
	at(w, "4.17.1")
	want := map[string]string{
		"before node=" + first + " rule=check": second, "after node=" + first + " rule=check": second,
		"before node=" + second + " rule=check": first, "after node=" + second + " rule=check": first,
	}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		w.Errorf("the Jobs have printed, and ran on,\n%v\nwant\n%v", lines, want)
	}
	if err := w.Client.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	w.Gone(run)
	kubectl(w, "label", "node", first, second, "node-role.kubernetes.io/apps-")
	ready(w)
}

// rule returns a MutexRule with a Job before the upgrade and a Job after it. Each Job prints the node and the rule that it runs for.
func rule(t *testing.T) *v1alpha1.MutexRule {
	t.Helper()
	spec := func(word string) runtime.RawExtension {
		text, err := json.Marshal(batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "check", Image: realnode.BusyboxImage, ImagePullPolicy: corev1.PullNever,
				Command: []string{"sh", "-c", "echo " + word + " node=$NODE_NAME rule=$MUTEX_RULE"},
			}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: text}
	}
	after := spec("after")
	return &v1alpha1.MutexRule{ObjectMeta: meta("gate", "check"), Spec: v1alpha1.MutexRuleSpec{
		JobName: "check", JobNamespace: "gate", JobSpec: spec("before"), CleanUpJobSpec: &after, Type: v1alpha1.RuleKubernetes,
	}}
}

// at waits until the real nodes have a version.
func at(w *harness.World, version string) {
	w.Helper()
	for _, name := range []string{first, second} {
		w.AwaitNode(name, "has version "+version, func(node *corev1.Node) error {
			if got := node.Labels[openshift.VersionKey]; got != version {
				return fmt.Errorf("it has %q", got)
			}
			return nil
		})
	}
}

// phase waits until the run is in a phase, and calls a function meanwhile.
func phase(w *harness.World, run *v1alpha1.MutexRunConfig, want v1alpha1.Phase, meanwhile func()) {
	w.Helper()
	err := harness.WaitLonger(w.Context(), long, time.Second/4, func() error {
		if meanwhile != nil {
			meanwhile()
		}
		if err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(run), run); err != nil {
			return err
		}
		if run.Status.Phase != want {
			return fmt.Errorf("it is %s: %s", run.Status.Phase, run.Status.Message)
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

// listen notes what the Jobs that have ended have printed, and where they ran: the drain of a node takes them away, as kubectl's does.
func listen(w *harness.World, lines map[string]string) {
	pods := &corev1.PodList{}
	if err := w.Client.List(w.Context(), pods, client.InNamespace("gate")); err != nil {
		return // it is looked at again
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		if text, err := printed(w.Context(), pod.Namespace, pod.Name, false); err == nil {
			lines[strings.TrimSpace(text)] = pod.Spec.NodeName
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
