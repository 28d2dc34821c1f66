package plan

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/ownership"
)

const roleLabel = "node-role.kubernetes.io/infra"

// TestDecide_ForgedRecord: a kubelet writes the annotations of its own Node, and so whatever a record there can say.
func TestDecide_ForgedRecord(t *testing.T) {
	for name, forge := range map[string]func(*world){
		"owned": func(w *world) {
			w.note(ownership.AnnotationRecord, `{"labels":["`+roleLabel+`"],"taints":["quarantine:NoExecute"]}`)
		},
		"owned by its Machine": func(w *world) {
			w.note(ownership.AnnotationRecord, `{"machine":{"labels":["`+roleLabel+`"],"taints":["quarantine:NoExecute"]}}`)
		},
		"removed a moment ago": func(w *world) {
			w.note(ownership.AnnotationRecord, `{"released":{"label":{"`+roleLabel+`":{"at":1700000000}},"taint":{"quarantine:NoExecute":{"at":1700000000}}}}`)
		},
		"MNMO's list": func(w *world) { w.note(ownership.AnnotationCustomLabels, roleLabel) },
	} {
		for _, api := range []machinev1beta1.MachineAuthority{"", machinev1beta1.MachineAuthorityClusterAPI} {
			t.Run(name+string(api), func(t *testing.T) {
				w := newWorld()
				w.machine.Status.AuthoritativeAPI = api
				w.onNode(roleLabel, "")
				w.node.Spec.Taints = list("quarantine:NoExecute")
				forge(w)
				w.pass(t)
				w.expect(t, "machine: ; node: "+roleLabel+"= | quarantine:NoExecute")
			})
		}
	}
}

// TestDecide_ForgedListOfMNMO: the list on the Node does not take a label off the Machine either.
func TestDecide_ForgedListOfMNMO(t *testing.T) {
	w := newWorld()
	w.machine.Spec.Labels = fields(roleLabel + "= team=blue")
	w.nodelink()
	w.note(ownership.AnnotationCustomLabels, roleLabel+",team")
	w.pass(t)
	w.expect(t, "machine: "+roleLabel+"=; node: "+roleLabel+"=")
}

// TestDecide_UnconfirmedRecord: what stays is reported until it is removed by hand.
func TestDecide_UnconfirmedRecord(t *testing.T) {
	w := newWorld()
	w.node.Spec.Taints = list("quarantine:NoExecute")
	w.note(ownership.AnnotationRecord, `{"taints":["quarantine:NoExecute"]}`)
	if decision := w.pass(t); decision.Settled != RefusedState || reasons(decision.Problems) != "taint quarantine:NoExecute Unconfirmed" {
		t.Errorf("settled as %s with the problems %v", decision.Settled, decision.Problems)
	}
	w.node.Spec.Taints = nil
	if decision := w.pass(t); decision.Settled != Synced || len(decision.Problems) > 0 {
		t.Errorf("settled as %s with the problems %v", decision.Settled, decision.Problems)
	}
}

// TestDecide_RestrictedEntriesOfTheMachine: what stands on the Machine only goes from its Node when it goes from the Machine.
func TestDecide_RestrictedEntriesOfTheMachine(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.machine.Spec.Labels, w.machine.Spec.Taints = fields(roleLabel+"="), list("own:NoSchedule")
	w.pass(t)
	w.expect(t, "machine: "+roleLabel+"= team=blue | own:NoSchedule; node: "+roleLabel+"= team=blue | own:NoSchedule")
	delete(w.machine.Spec.Labels, roleLabel)
	w.machine.Spec.Taints = nil
	if decision := w.pass(t); decision.Machine.Write {
		t.Error("the Machine is written to forget what its record confirmed")
	}
	w.expect(t, "machine: team=blue; node: team=blue")
	confirms := `"machine":{"labels":["` + roleLabel + `"],"taints":["own:NoSchedule"]},`
	for _, step := range []struct{ labels, confirms, when string }{
		{"team=red", confirms, "a writer with an old cache may put them back"},
		{"team=green", confirms, "the record that is read still says so"},
		{"team=blue", "", "the Node has forgotten them"},
	} {
		w.labels(step.labels).pass(t)
		want := fmt.Sprintf(`{"labels":["team"],%s"pool":"workers","generation":%d}`, step.confirms, w.set.Generation)
		if got := w.machine.Annotations[ownership.AnnotationRecord]; got != want {
			t.Errorf("%s: the record of the Machine is %s, not %s", step.when, got, want)
		}
		w.now = w.now.Add(2 * ownership.ReleaseWindow)
	}
}

// TestDecide_RestrictedEntriesWithoutMachineSet: a Machine of its own confirms its entries as well, in one write.
func TestDecide_RestrictedEntriesWithoutMachineSet(t *testing.T) {
	w := newWorld()
	w.set = nil
	w.machine.Spec.Taints = list("own:NoSchedule")
	w.pass(t)
	w.expect(t, "machine: own:NoSchedule; node: own:NoSchedule")
	w.machine.Spec.Taints = nil
	w.pass(t)
	w.expect(t, "machine: ; node: ")
}

// TestDecide_StoppedBeforeTheNode: the operator ends after it has written the Machine and before it writes the Node, and the next one goes on.
func TestDecide_StoppedBeforeTheNode(t *testing.T) {
	w := newWorld().labels(roleLabel + "=").taints("dedicated=db:NoSchedule")
	w.pass(t)
	w.labels("").taints("")
	if _, err := w.applySome(w.decide(), 1); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "machine: ; node: "+roleLabel+"= | dedicated=db:NoSchedule")
	w.pass(t)
	w.expect(t, "machine: ; node: ")
	// A writer with an old cache puts them back.
	w.onNode(roleLabel, "")
	w.node.Spec.Taints = list("dedicated=db:NoSchedule")
	w.pass(t)
	w.expect(t, "machine: ; node: ")
}

// TestDecide_ForgedRecordOfDeclaredEntries: nor does a forged record let Drover overwrite what an administrator has set.
func TestDecide_ForgedRecordOfDeclaredEntries(t *testing.T) {
	for name, record := range map[string]string{
		"owned":                `{"labels":["` + roleLabel + `"],"taints":["dedicated:NoSchedule"]}`,
		"owned by its Machine": `{"machine":{"labels":["` + roleLabel + `"],"taints":["dedicated:NoSchedule"]}}`,
		"removed a moment ago": `{"released":{"label":{"` + roleLabel + `":{"value":"no","at":1700000000}},` +
			`"taint":{"dedicated:NoSchedule":{"value":"quarantine","at":1700000000}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.onNode(roleLabel, "no")
			w.node.Spec.Taints = list("dedicated=quarantine:NoSchedule")
			w.note(ownership.AnnotationRecord, record)
			w.labels(roleLabel + "=").taints("dedicated=db:NoSchedule")
			w.pass(t)
			w.expect(t, "machine: ; node: "+roleLabel+"=no | dedicated=quarantine:NoSchedule")
		})
	}
}

// TestDecide_RestrictedValueOfTheMachine: the Node's record names a restricted label that has another value by now. It is repaired where the Machine
// itself has the label, which a kubelet cannot write. What the MachineSet declares needs the record of the Machine.
func TestDecide_RestrictedValueOfTheMachine(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*world)
		want    string
		state   State
	}{
		"the Machine has it": {
			func(w *world) { w.machine.Spec.Labels = fields(roleLabel + "=1") }, "machine: " + roleLabel + "=1; node: " + roleLabel + "=1", Synced,
		},
		"the MachineSet declares it": {
			func(w *world) { w.labels(roleLabel + "=1") }, "machine: ; node: " + roleLabel + "=2", Conflicted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.prepare(w)
			w.onNode(roleLabel, "2")
			w.note(ownership.AnnotationRecord, `{"labels":["`+roleLabel+`"],"machine":{"labels":["`+roleLabel+`"]}}`)
			if decision := w.pass(t); decision.Settled != c.state {
				t.Errorf("settled as %s with the problems %v", decision.Settled, decision.Problems)
			}
			w.expect(t, c.want)
		})
	}
}
