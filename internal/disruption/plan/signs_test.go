package plan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/apitest/builder"
)

type change func(*corev1.Node)

// newNode returns a Node that is Ready and has no sign.
func newNode(name string, changes ...change) *corev1.Node {
	node := builder.Node(name, builder.WithReady(corev1.ConditionTrue))
	for _, change := range changes {
		change(node)
	}
	return node
}

func withCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus) change {
	return func(node *corev1.Node) {
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status})
	}
}

func withTaint(key string, effect corev1.TaintEffect) change {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	}
}

func withAnnotations(keysAndValues ...string) change {
	return func(node *corev1.Node) {
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		for i := 0; i < len(keysAndValues); i += 2 {
			node.Annotations[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
}

func notReady(node *corev1.Node) { withCondition(corev1.NodeReady, corev1.ConditionFalse)(node) }

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

func deleted(node *corev1.Node) { node.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

// withMachineConfig has the machine-config-operator's annotations.
func withMachineConfig(current, desired, state string) change {
	return withAnnotations("machineconfiguration.openshift.io/currentConfig", current, "machineconfiguration.openshift.io/desiredConfig", desired,
		"machineconfiguration.openshift.io/state", state)
}

func withDrain(desired, applied string) change {
	return withAnnotations("machineconfiguration.openshift.io/desiredDrain", desired, "machineconfiguration.openshift.io/lastAppliedDrain", applied)
}

func TestSigns(t *testing.T) {
	const noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	type changes []change
	for name, test := range map[string]struct {
		node changes
		want []Sign
	}{
		"Ready":          {nil, nil},
		"not Ready":      {changes{notReady}, []Sign{SignNotReady}},
		"Ready Unknown":  {changes{withCondition(corev1.NodeReady, corev1.ConditionUnknown)}, []Sign{SignNotReady}},
		"never reported": {changes{func(node *corev1.Node) { node.Status.Conditions = nil }}, []Sign{SignNotReady}},
		"being deleted":  {changes{deleted}, []Sign{SignDeleted}},
		"cordoned":       {changes{cordoned}, []Sign{SignCordoned}},
		"several": {
			changes{withCondition(corev1.NodeDrained, corev1.ConditionTrue), cordoned, notReady}, []Sign{SignNotReady, SignCordoned, SignDrained},
		},
		"memory pressure": {changes{withCondition(corev1.NodeMemoryPressure, corev1.ConditionTrue)}, nil},

		"taint of Karpenter":                {changes{withTaint("karpenter.sh/disrupted", noSchedule)}, []Sign{SignTainted}},
		"taint of the autoscaler":           {changes{withTaint("ToBeDeletedByClusterAutoscaler", noSchedule)}, []Sign{SignTainted}},
		"out of service":                    {changes{withTaint("node.kubernetes.io/out-of-service", noExecute)}, []Sign{SignTainted}},
		"shut down":                         {changes{withTaint("node.cloudprovider.kubernetes.io/shutdown", noSchedule)}, []Sign{SignTainted}},
		"drained by node-maintenance":       {changes{withTaint("medik8s.io/drain", noSchedule)}, []Sign{SignTainted}},
		"taint of the group":                {changes{withTaint("example.com/broken", noSchedule)}, []Sign{SignTainted}},
		"another taint":                     {changes{withTaint("dedicated", noExecute)}, nil},
		"deletion candidate: not a sign":    {changes{withTaint("DeletionCandidateOfClusterAutoscaler", corev1.TaintEffectPreferNoSchedule)}, nil},
		"outdated revision: not a sign":     {changes{withTaint("node.cluster.x-k8s.io/outdated-revision", corev1.TaintEffectPreferNoSchedule)}, nil},
		"UpdateInProgress: not a sign":      {changes{withTaint("UpdateInProgress", corev1.TaintEffectPreferNoSchedule)}, nil},
		"MachineConfig: as desired":         {changes{withMachineConfig("a", "a", "Done")}, nil},
		"MachineConfig: outdated, Done":     {changes{withMachineConfig("a", "b", "Done")}, []Sign{SignMachineConfig}},
		"MachineConfig: outdated, Working":  {changes{withMachineConfig("a", "b", "Working")}, []Sign{SignMachineConfig}},
		"MachineConfig: outdated, Degraded": {changes{withMachineConfig("a", "b", "Degraded")}, nil},
		"MachineConfig: outdated, given up": {changes{withMachineConfig("a", "b", "Unreconcilable")}, nil},
		"MachineConfig: drain requested":    {changes{withDrain("drain-b", "uncordon-a")}, []Sign{SignMachineConfig}},
		"MachineConfig: drained":            {changes{withDrain("drain-b", "drain-b")}, nil},
		"MachineConfig: uncordon requested": {changes{withDrain("uncordon-b", "drain-b")}, []Sign{SignMachineConfig}},
		"MachineConfig: drained, Degraded": {
			changes{withDrain("drain-b", "drain-a"), withMachineConfig("a", "b", "Degraded")}, []Sign{SignMachineConfig},
		},
		"MachineConfig: nothing requested":   {changes{withDrain("", "uncordon-a")}, nil},
		"kured":                              {changes{withAnnotations("weave.works/kured-reboot-in-progress", "")}, []Sign{SignReboot}},
		"kured: rebooted earlier":            {changes{withAnnotations("weave.works/kured-most-recent-reboot-needed", "x")}, nil},
		"Drained":                            {changes{withCondition("Drained", corev1.ConditionTrue)}, []Sign{SignDrained}},
		"Drained False":                      {changes{withCondition("Drained", corev1.ConditionFalse)}, nil},
		"MaintenanceInProgress":              {changes{withCondition("MaintenanceInProgress", corev1.ConditionTrue)}, []Sign{SignMaintenance}},
		"MaintenancePlanned: not a sign":     {changes{withCondition("MaintenancePlanned", corev1.ConditionTrue)}, nil},
		"DrainInProgress, not cordoned":      {changes{withCondition("DrainInProgress", corev1.ConditionTrue)}, nil},
		"DrainInProgress, cordoned":          {changes{withCondition("DrainInProgress", corev1.ConditionTrue), cordoned}, []Sign{SignCordoned, SignDrain}},
		"GracefulNodeShutdownInProgress: no": {changes{withCondition("GracefulNodeShutdownInProgress", corev1.ConditionTrue)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode("n", test.node...)
			if got := Signs(node, []string{"example.com/broken"}); !slices.Equal(got, test.want) {
				t.Errorf("the signs are %q, want %q", got, test.want)
			}
		})
	}
}

func TestSigns_TaintOfAnotherGroup(t *testing.T) {
	if got := Signs(newNode("n", withTaint("example.com/broken", corev1.TaintEffectNoSchedule)), nil); got != nil {
		t.Errorf("the signs are %q", got)
	}
}

func TestIsJoining(t *testing.T) {
	for key, want := range map[string]bool{
		"node.cloudprovider.kubernetes.io/uninitialized": true,
		"node.cluster.x-k8s.io/uninitialized":            true,
		"karpenter.sh/unregistered":                      true,
		"drover.dev/uninitialized":                       true,
		"node.kubernetes.io/not-ready":                   false,
		"node.cluster.x-k8s.io/outdated-revision":        false,
	} {
		if got := IsJoining(newNode("n", withTaint(key, corev1.TaintEffectNoSchedule))); got != want {
			t.Errorf("%s: joining is %v", key, got)
		}
	}
}
