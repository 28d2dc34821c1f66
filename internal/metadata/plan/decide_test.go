package plan

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/ownership"
)

func TestDecide_AppliesAndRemovesAllKinds(t *testing.T) {
	w := newWorld().labels("team=blue").annotations("example.com/note=hi").taints("dedicated=db:NoSchedule")
	decision := w.pass(t)
	if decision.State != Pending || decision.Settled != Synced || decision.Drift || !decision.Machine.Write || !decision.Node.Write {
		t.Errorf("decision %+v", decision)
	}
	all := "team=blue | example.com/note=hi | dedicated=db:NoSchedule"
	w.expect(t, "machine: "+all+"; node: "+all)
	if record := w.record(t); record.Source != "workers" || record.Generation != w.set.Generation || record.Digest != decision.Digest {
		t.Errorf("record %+v", record)
	}
	if w.node.Annotations[ownership.AnnotationCustomLabels] != "team" {
		t.Errorf("MNMO's list is %q", w.node.Annotations[ownership.AnnotationCustomLabels])
	}

	w.labels("").annotations("").taints("").pass(t)
	w.expect(t, "machine: ; node: ")
	// The taint stays in the Machine's record until it is written next: had the operator ended between the two writes, it would be needed.
	want := `{"machine":{"taints":["dedicated:NoSchedule"]},"pool":"workers","generation":7}`
	if got := w.machine.Annotations[ownership.AnnotationRecord]; got != want {
		t.Errorf("the record of the Machine is %s, not %s", got, want)
	}
	if w.node.Annotations[ownership.AnnotationCustomLabels] != "" {
		t.Errorf("records left behind: %v", w.node.Annotations)
	}
}

// TestDecide_MovesToTheGroup: a key that a MachineSet no longer declares stays on a Node whose NodeGroup keeps it with the same value, and is not
// removed again if the group sets it later.
func TestDecide_MovesToTheGroup(t *testing.T) {
	grouped := Entries{ownership.Label: {"team": "blue", "tier": "db"}, ownership.Taint: {"dedicated:NoSchedule": "db"}}
	w := newWorld().labels("team=blue tier=web").taints("dedicated=db:NoSchedule")
	w.pass(t)
	if !losesKeys(w.node, DeclarationOf(newWorld().set)) || losesKeys(w.node, DeclarationOf(w.set)) {
		t.Error("the Node loses keys when the MachineSet declares nothing, and not before")
	}
	w.grouped = grouped
	for _, owned := range []int{2, 0} {
		w.labels("").taints("").pass(t)
		w.expect(t, "machine: ; node: team=blue | dedicated=db:NoSchedule")
		if record := w.record(t); record.Of(ownership.Label).Len()+record.Of(ownership.Taint).Len() != owned {
			t.Errorf("the record is %+v", record)
		}
		// The group records them.
		w.owned = grouped.Section()
	}

	w = newWorld().labels("team=blue")
	w.pass(t)
	w.labels("").pass(t)
	w.expect(t, "machine: ; node: ")
	if !losesKeys(w.node, DeclarationOf(w.set)) {
		t.Error("the Node has lost a key lately")
	}
	w.grouped = grouped
	w.node.Labels = map[string]string{"team": "blue"}
	w.pass(t)
	w.expect(t, "machine: ; node: team=blue")
}

// MNMO removed every taint that the MachineSet does not name.
func TestDecide_ForeignTaints(t *testing.T) {
	foreign := "node.kubernetes.io/unreachable:NoExecute node.kubernetes.io/not-ready:NoSchedule UpdateInProgress:PreferNoSchedule " +
		"medik8s.io/drain:NoSchedule ToBeDeletedByClusterAutoscaler=17:NoSchedule " +
		"node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule node.kubernetes.io/unschedulable:NoSchedule admin=x:NoSchedule"
	w := newWorld().taints("dedicated=db:NoSchedule")
	w.node.Spec.Taints = list(foreign)
	w.pass(t)
	w.expect(t, "machine: dedicated=db:NoSchedule; node: "+foreign+" dedicated=db:NoSchedule")
	w.taints("").pass(t)
	w.expect(t, "machine: ; node: "+foreign)
}

// A taint whose value alone changed never reached the Node.
func TestDecide_ValueOfATaint(t *testing.T) {
	w := newWorld().taints("k=one:NoExecute")
	w.pass(t)
	added := metav1.NewTime(time.Unix(5, 0))
	w.node.Spec.Taints[0].TimeAdded = &added
	w.node.Spec.Taints = append(w.node.Spec.Taints, list("admin:NoSchedule")...)
	if decision := w.taints("k=two:NoExecute").pass(t); decision.Drift {
		t.Error("a new value counts as drift")
	}
	w.expect(t, "machine: k=two:NoExecute; node: k=two:NoExecute admin:NoSchedule")
	if got := w.node.Spec.Taints[0].TimeAdded; got == nil || !got.Equal(&added) {
		t.Errorf("timeAdded is %v: the tolerations of its pods would start to count anew", got)
	}
}

// MNMO removed a label that another writer had set on one Node from all later ones, because it changed the MachineSet itself.
func TestDecide_ConflictOnOneNode(t *testing.T) {
	first := newWorld().labels("team=blue")
	first.onNode("team", "green")
	input := first.input()
	if decision := Decide(input); decision.State != Conflicted || reasons(decision.Problems) != "label team Conflict" {
		t.Errorf("first: %s, %s", decision.State, reasons(decision.Problems))
	}
	second := newWorld()
	other := second.input()
	other.Declaration = input.Declaration
	if decision := Decide(other); decision.Node.Results[ownership.Label].Set["team"] != "blue" {
		t.Errorf("second: %+v", decision)
	}
}

// A repeated taint ended MNMO's loop.
func TestDecide_RepeatedTaint(t *testing.T) {
	w := newWorld().labels("team=blue").taints("a=1:NoSchedule a=2:NoSchedule b:NoExecute a=1:NoExecute")
	decision := w.pass(t)
	if decision.Settled != RefusedState || reasons(decision.Problems) != "taint a:NoSchedule Duplicate" {
		t.Errorf("%s, %s", decision.Settled, reasons(decision.Problems))
	}
	all := "team=blue | a=1:NoExecute a=1:NoSchedule b:NoExecute"
	w.expect(t, "machine: "+all+"; node: "+all)
}

// A MachineSet without labels made MNMO write every Node in every reconciliation.
func TestDecide_NothingDeclared(t *testing.T) {
	for name, edit := range map[string]func(*world){
		"bare":                  func(*world) {},
		"foreign entries":       func(w *world) { w.onNode("a", "1"); w.note("b", "2"); w.node.Spec.Taints = list("c:NoSchedule") },
		"MNMO's empty list":     func(w *world) { w.note(ownership.AnnotationCustomLabels, "") },
		"empty maps":            func(w *world) { w.labels("").annotations("").taints("") },
		"only refused keys":     func(w *world) { w.labels("kubernetes.io/hostname=x") },
		"only invalid keys":     func(w *world) { w.labels("-=x") },
		"no pool":               func(w *world) { w.set = nil },
		"a record of nothing":   func(w *world) { w.note(ownership.AnnotationRecord, "{}") },
		"a set-once of nothing": func(w *world) { w.annotate(AnnotationSetOnceTaints, "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			edit(w)
			if decision := w.decide(); decision.Machine.Write || decision.Node.Write {
				t.Errorf("%+v", decision)
			}
		})
	}
}

// MNMO overwrote the labels that describe the machine.
func TestDecide_SystemKeys(t *testing.T) {
	w := newWorld().labels("kubernetes.io/hostname=fake team=blue node-role.kubernetes.io/infra=").
		annotations("machine.openshift.io/machine=x").taints("node.kubernetes.io/unschedulable:NoSchedule")
	w.onNode("kubernetes.io/hostname", "n1")
	decision := w.pass(t)
	want := "annotation machine.openshift.io/machine Refused, label kubernetes.io/hostname Refused, " +
		"taint node.kubernetes.io/unschedulable:NoSchedule Refused"
	if decision.State != Pending || decision.Settled != RefusedState || reasons(decision.Problems) != want {
		t.Errorf("%s, %s", decision.Settled, reasons(decision.Problems))
	}
	w.expect(t, "machine: node-role.kubernetes.io/infra= team=blue; node: kubernetes.io/hostname=n1 node-role.kubernetes.io/infra= team=blue")
}

// The nodelink controller of machine-api-operator carries every key of a Machine's spec; so do workloads expect it that select nodes by them.
func TestDecide_KeysThatNodelinkCopies(t *testing.T) {
	labels := "cluster.x-k8s.io/cluster-name=blue machine.openshift.io/interruptible-instance= node-role.kubernetes.io/worker= " +
		"topology.ebs.csi.aws.com/zone=a"
	annotations := "cluster.x-k8s.io/note=1 machine.openshift.io/note=2"
	w := newWorld().labels(labels).annotations(annotations)
	if decision := w.pass(t); len(decision.Problems) > 0 {
		t.Error(reasons(decision.Problems))
	}
	w.expect(t, "machine: "+labels+" | "+annotations+"; node: "+labels+" | "+annotations)
}

// A label that machine creation had copied was never recorded, so dropping it from the MachineSet left it on the Node.
func TestDecide_EqualValueBecomesOwned(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.machine.Spec.Labels = fields("team=blue hand=made")
	w.onNode("team", "blue")
	w.onNode("zone", "a")
	decision := w.pass(t)
	if !decision.Node.Write || decision.Node.Results[ownership.Label].Set["team"] != "" {
		t.Errorf("one write of the record alone is due: %+v", decision.Node)
	}
	w.labels("").pass(t)
	w.expect(t, "machine: hand=made; node: hand=made zone=a")
}

func TestDecide_WithoutNode(t *testing.T) {
	w := newWorld().labels("team=blue").taints("once:NoSchedule").annotate(AnnotationSetOnceTaints, "once")
	w.node, w.machine.Status.NodeRef = nil, nil
	w.machine.Spec.Taints = list("once:NoSchedule")
	decision := w.pass(t)
	if decision.State != Pending || decision.Settled != Pending || !strings.Contains(decision.Reason, "no Node") || decision.Digest != "" {
		t.Errorf("%+v", decision)
	}
	if textOf(w.machine.Spec.Labels) != "team=blue" || textOfTaints(w.machine.Spec.Taints) != "once:NoSchedule" {
		t.Errorf("the set-once taint has to wait on the Machine for its Node: %+v", w.machine.Spec)
	}
}

func TestDecide_NodeMayNotBeWritten(t *testing.T) {
	for name, c := range map[string]struct {
		edit         func(*world)
		state        State
		reason       string
		writeMachine bool
	}{
		"shared by two Machines": {func(w *world) { w.shared = true }, Held, "two Machines", true},
		"being deleted": {func(w *world) {
			w.node.DeletionTimestamp = &metav1.Time{Time: w.now}
		}, Pending, "being deleted", true},
		"paused": {func(w *world) { w.note(AnnotationPaused, "true") }, Held, "Node is paused", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().labels("team=blue theirs=1")
			w.onNode("theirs", "2")
			c.edit(w)
			decision := w.pass(t)
			if decision.Settled != c.state || !strings.Contains(decision.Reason, c.reason) || decision.Machine.Write != c.writeMachine || decision.Node.Write {
				t.Errorf("%+v", decision)
			}
			if _, carried := w.machine.Spec.Labels["theirs"]; carried {
				t.Error("nodelink would overwrite another writer's value with the Machine's")
			}
		})
	}
}

func TestDecide_Paused(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*world, string)
		reason string
	}{
		"MachineSet": {func(w *world, value string) { w.annotate(AnnotationPaused, value) }, "the MachineSet is paused"},
		"Machine": {func(w *world, value string) {
			metav1.SetMetaDataAnnotation(&w.machine.ObjectMeta, AnnotationPaused, value)
		}, "the Machine is paused"},
		"Node": {func(w *world, value string) { w.note(AnnotationPaused, value) }, "the Node is paused"},
	} {
		for value, paused := range map[string]bool{"true": true, "": true, "yes": true, "False": true, "false": false} {
			t.Run(name+"="+value, func(t *testing.T) {
				w := newWorld().labels("team=blue kubernetes.io/os=x").taints("a:NoSchedule a:NoSchedule")
				c.edit(w, value)
				decision := w.pass(t)
				writes := decision.Machine.Write || decision.Node.Write
				if (decision.State == Held) != paused || writes == paused || paused && decision.Reason != c.reason {
					t.Errorf("%+v", decision)
				}
			})
		}
	}
}

// Problems of the declaration are reported also while nothing may be written.
func TestDecide_PausedReportsProblems(t *testing.T) {
	w := newWorld().labels("-=x").annotate(AnnotationPaused, "true")
	if decision := w.decide(); reasons(decision.Problems) != "label - Invalid" {
		t.Errorf("problems %s", reasons(decision.Problems))
	}
}

// Once the Cluster API is authoritative, an admission policy of OpenShift refuses every change of a Machine's spec.
func TestDecide_AuthoritativeAPI(t *testing.T) {
	for api, writable := range map[machinev1beta1.MachineAuthority]bool{
		"": true, machinev1beta1.MachineAuthorityMachineAPI: true,
		machinev1beta1.MachineAuthorityClusterAPI: false, machinev1beta1.MachineAuthorityMigrating: false,
	} {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld().labels("team=blue old=1").taints("t:NoSchedule")
			w.machine.Spec.Labels = fields("hand=made")
			w.pass(t)
			w.machine.Status.AuthoritativeAPI = api
			decision := w.labels("team=red").pass(t)
			if decision.Machine.Write != writable || !decision.Node.Write {
				t.Errorf("%+v", decision)
			}
			machine := "hand=made team=red | t:NoSchedule"
			if !writable {
				machine = "hand=made old=1 team=blue | t:NoSchedule"
			}
			w.expect(t, "machine: "+machine+"; node: hand=made team=red | t:NoSchedule")
		})
	}
}

// A manual edit of a record must neither stop Drover nor make it own foreign keys.
func TestDecide_UnreadableRecords(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.onNode("foreign", "1")
	w.note(ownership.AnnotationRecord, `{"labels":["foreign"`)
	metav1.SetMetaDataAnnotation(&w.machine.ObjectMeta, ownership.AnnotationRecord, "?")
	decision := w.decide()
	if want := "annotation drover.dev/owned-metadata BadRecord, annotation drover.dev/owned-metadata BadRecord"; reasons(decision.Problems) != want {
		t.Errorf("problems %s", reasons(decision.Problems))
	}
	if err := w.apply(decision); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "machine: team=blue; node: foreign=1 team=blue")
	if again := w.decide(); again.State != Synced || again.Node.Write || again.Machine.Write {
		t.Errorf("a good record has not taken its place: %+v", again)
	}
}
