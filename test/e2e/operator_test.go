package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// metricsHave waits until the operator's metrics have a line.
func metricsHave(w *harness.World, operator *harness.Operator, line string) {
	w.Helper()
	w.Eventually("metric "+line, func() error {
		text, err := scrape(w, operator)
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Split(text, "\n"), line) {
			var near []string
			for l := range strings.SplitSeq(text, "\n") {
				if strings.HasPrefix(l, strings.FieldsFunc(line, func(r rune) bool { return r == '{' || r == ' ' })[0]) {
					near = append(near, l)
				}
			}
			return fmt.Errorf("there are\n%s", strings.Join(near, "\n"))
		}
		return nil
	})
}

// scrape reads /metrics as a Prometheus that was given the role that is shipped.
func scrape(w *harness.World, operator *harness.Operator) (string, error) {
	token, err := harness.MetricsToken(w.Context(), env, w.Client)
	if err != nil {
		return "", err
	}
	return operator.Scrape(w.Context(), token)
}

func TestMetrics_NeedPermission(t *testing.T) {
	w := pool(t, "metrics", 2)
	operator := w.Operator(harness.Options{})
	w.Eventually("without a token", func() error {
		if _, err := operator.Scrape(t.Context(), ""); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the answer is %w, want unauthorized", err)
		}
		return nil
	})
	stranger, err := env.AsServiceAccount(t.Context(), cluster.MachineNamespace, "default")
	if apierrors.IsNotFound(err) { // no controller makes it here
		if err := w.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: harness.Meta("default")}); err != nil {
			t.Fatal(err)
		}
		stranger, err = env.AsServiceAccount(t.Context(), cluster.MachineNamespace, "default")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Scrape(t.Context(), stranger.BearerToken); !apierrors.IsForbidden(err) {
		t.Errorf("without the permission the answer is %v, want forbidden", err)
	}
	setLabel(w, "metrics", "example.com/team", "blue")
	metricsHave(w, operator, `drover_metadata_nodes{machineset="metrics",namespace="openshift-machine-api",state="synced"} 2`)
	metricsHave(w, operator, `drover_metadata_writes_total{kind="node",result="ok"} 2`)
	metricsHave(w, operator, `drover_metadata_propagation_seconds_count 2`)
	deleteNode(w, "metrics-0")
	metricsHave(w, operator, `mnmo_node_reconciliation_failure{node="metrics-0"} 1`)
	metricsHave(w, operator, `drover_metadata_nodes{machineset="metrics",namespace="openshift-machine-api",state="pending"} 1`)
	for _, name := range []string{"metrics-0", "metrics-1"} {
		if err := w.Client.Delete(t.Context(), w.Machine(name)); err != nil {
			t.Fatal(err)
		}
	}
	metricsHave(w, operator, `drover_metadata_nodes{machineset="metrics",namespace="openshift-machine-api",state="pending"} 0`)
	w.Eventually("the series of the Machine ends", func() error {
		text, err := scrape(w, operator)
		if err == nil && strings.Contains(text, `mnmo_node_reconciliation_failure{node="metrics-0"}`) {
			err = fmt.Errorf("it is still there")
		}
		return err
	})
}

func TestOperator_WritesNothingAtRestOrOnRestart(t *testing.T) {
	w := pool(t, "rest", 5, func(o *cluster.PoolOptions) { o.NodeLabels = map[string]string{"example.com/mine": "1"} })
	label(w, "rest-0", "example.com/conflict", "theirs")
	first := w.Operator(harness.Options{})
	declare(w, "rest", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{"example.com/team": "blue", "example.com/conflict": "ours", "kubernetes.io/hostname": "refused"}
		spec.Annotations = map[string]string{"example.com/note": "x"}
		spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
	})
	w.Mark("rest")
	hasEvent(w, "Node", "rest-0", "MetadataConflict", "theirs")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	versions := func() (all []string) {
		for i := range 5 {
			name := fmt.Sprintf("rest-%d", i)
			all = append(all, w.Machine(name).ResourceVersion, w.Node(name).Annotations["drover.dev/owned-metadata"])
		}
		return all
	}
	emitted := func() map[string][]string {
		all := w.Events("MachineSet", "rest")
		maps.Copy(all, w.Events("Node", "rest-0"))
		return all
	}
	before, events, mark := versions(), emitted(), w.AuditMark()
	second := w.Operator(harness.Options{})
	// Heartbeats and a scaled pool are no reason to write either.
	for i := range 5 {
		node := w.Node(fmt.Sprintf("rest-%d", i))
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Test", Status: corev1.ConditionTrue})
		if err := w.Client.Status().Update(t.Context(), node); err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	harness.Update(w, w.Set, "rest", func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(int32(6)) })
	metricsHave(w, second, `drover_metadata_nodes{machineset="rest",namespace="openshift-machine-api",state="refused"} 4`)
	metricsHave(w, second, `drover_metadata_nodes{machineset="rest",namespace="openshift-machine-api",state="conflict"} 1`)
	w.Pool(cluster.PoolOptions{Name: "rest-other", Machines: 1})
	w.Mark("rest-other")
	for _, write := range w.Writes(mark) {
		if write.Name != "rest-other-0" {
			t.Errorf("after a restart with nothing to do: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	if after := versions(); !slices.Equal(before, after) {
		t.Errorf("versions and records moved:\n%v\n%v", before, after)
	}
	if after := emitted(); !maps.EqualFunc(events, after, slices.Equal) {
		t.Errorf("a restart emitted events again:\n%v\n%v", events, after)
	}
}

// The second line is of servers of Kubernetes 1.31 and 1.33, unless their administrator has switched the feature on.
func TestOperator_ReportsWhatTheServerLacks(t *testing.T) {
	t.Parallel()
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		t.Fatal(err)
	}
	server, err := clients.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	want := "kubernetes: " + server.GitVersion + "\n"
	stream, err := clients.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces").Param("watch", "true").Param("sendInitialEvents", "true").
		Param("allowWatchBookmarks", "true").Param("resourceVersionMatch", "NotOlderThan").Stream(t.Context())
	switch {
	case apierrors.IsInvalid(err):
		want = "kubernetes: " + server.GitVersion + " (without WatchList:"
	case err != nil:
		t.Fatal(err)
	default:
		_ = stream.Close()
	}
	if err := shared.For(t, env).Says(t.Context(), want); err != nil {
		t.Error(err)
	}
}

func TestOperator_DeniedWriteReported(t *testing.T) {
	t.Parallel()
	w := pool(t, "denied", 2)
	policy := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-red}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["nodes"]}]
  validations: [{expression: "object.metadata.name != 'denied-0' || !('example.com/red' in object.metadata.labels)", message: "no red here"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-red}
spec: {policyName: no-red, validationActions: [Deny]}
`
	if output, err := harness.Kubectl(t.Context(), env, strings.NewReader(policy), "apply", "-f", "-"); err != nil {
		t.Fatal(err, output)
	}
	t.Cleanup(func() {
		if output, err := harness.Kubectl(context.Background(), env, strings.NewReader(policy), "delete", "-f", "-"); err != nil {
			t.Error(err, output)
		}
	})
	w.Eventually("the policy", func() error {
		node := w.Node("denied-0")
		node.Labels["example.com/red"] = "1"
		if err := w.Client.Update(t.Context(), node); err == nil {
			unlabel(w, "denied-0", "example.com/red")
			return fmt.Errorf("it is not in force yet")
		}
		return nil
	})
	operator := shared.For(t, env)
	setLabel(w, "denied", "example.com/red", "1")
	hasLabel(w, "denied-1", "example.com/red", "1")
	hasEvent(w, "Node", "denied-0", "MetadataDenied", "no red here")
	metricsHave(w, operator, `drover_metadata_nodes{machineset="denied",namespace="openshift-machine-api",state="held"} 1`)
}

func TestManifests_RestrictedPodSecurity(t *testing.T) {
	folder, err := harness.Folder("config/default")
	if err != nil {
		t.Fatal(err)
	}
	output, err := harness.Kubectl(t.Context(), env, nil, "apply", "-k", folder, "--dry-run=server")
	if err != nil || strings.Contains(output, "would violate PodSecurity") {
		t.Errorf("%v\n%s", err, output)
	}
	// Pod security only warns of Deployments; the Pod is what it refuses.
	output, err = harness.Kubectl(t.Context(), env, nil, "get", "deployment", "drover", "-n", harness.SystemNamespace,
		"-o", `jsonpath={"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"drover\",\"namespace\":\"drover-system\"},"}`+
			`{"\"spec\":"}{.spec.template.spec}{"}"}`)
	if err != nil {
		t.Fatal(err, output)
	}
	if answer, err := harness.Kubectl(t.Context(), env, strings.NewReader(output), "apply", "--dry-run=server", "-f", "-"); err != nil {
		t.Errorf("the Pod is refused: %v\n%s\n%s", err, answer, output)
	}
}

func TestConfiguration_UnknownFields(t *testing.T) {
	w := pool(t, "config", 1)
	path := t.TempDir() + "/drover.yaml"
	text := "apiVersion: config.drover.dev/v1alpha1\nkind: DroverConfiguration\nmetadata:\n  protected:\n    labels: [\"example.com/secret-*\"]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	operator := w.Operator(harness.Options{Args: []string{"--config=" + path}})
	declare(w, "config", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{"example.com/secret-one": "1", "example.com/team": "blue"}
	})
	hasLabel(w, "config-0", "example.com/team", "blue")
	hasEvent(w, "MachineSet", "config", "MetadataRefused", "example.com/secret-one")
	if _, ok := w.Node("config-0").Labels["example.com/secret-one"]; ok {
		t.Error("a label of the configured list was set")
	}
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"    label: [x]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong, err := harness.Launch(t.Context(), env, t.TempDir(), harness.Options{Args: []string{"--config=" + path}})
	if err != nil {
		t.Fatal(err)
	}
	<-wrong.Ended()
	if err := wrong.Stop(); err == nil || !strings.Contains(wrong.Log(), `unknown field`) {
		t.Errorf("a typo in the configuration gave %v:\n%s", err, wrong.Log())
	}
}
