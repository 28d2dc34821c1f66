package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/rollout/history"
)

// group adds a NodeGroup that declares the label team, with the label pool as its selector.
func (f *fakeCluster) group(name, team string, edit func(*v1alpha1.NodeGroup)) *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("group-" + name), Generation: 3, CreationTimestamp: metav1.Time{Time: testTime.Add(-49 * time.Hour)},
	}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}
	group.Spec.Metadata = teamMetadata(team)
	if edit != nil {
		edit(group)
	}
	f.all = append(f.all, group)
	return group
}

func teamMetadata(team string) *v1alpha1.Metadata {
	if team == "" {
		return nil
	}
	return &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"team": v1alpha1.LabelValue(team)}}
}

// keep adds revisions, numbered from 1, an hour apart.
func (f *fakeCluster) keep(t *testing.T, subject history.Subject, data ...[]byte) []*appsv1.ControllerRevision {
	t.Helper()
	var kept []*appsv1.ControllerRevision
	for i, text := range data {
		in := &history.Input{Subject: subject, Namespace: "drover-system", Data: text, Limit: len(data), Revisions: kept}
		if i == 1 {
			in.Cause = "ticket 7"
		}
		revision := history.Decide(in).Create
		revision.CreationTimestamp = metav1.Time{Time: testTime.Add(time.Duration(i-len(data)) * time.Hour)}
		kept, f.all = append(kept, revision), append(f.all, revision)
	}
	return kept
}

// keepTeams adds revisions of a NodeGroup that declared these teams.
func (f *fakeCluster) keepTeams(t *testing.T, group *v1alpha1.NodeGroup, teams ...string) []*appsv1.ControllerRevision {
	t.Helper()
	var all [][]byte
	for _, team := range teams {
		earlier := group.DeepCopy()
		earlier.Spec.Metadata = teamMetadata(team)
		data, err := history.GroupData(earlier)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return f.keep(t, history.OfGroup(group), all...)
}

func TestRolloutHistory(t *testing.T) {
	f := &fakeCluster{}
	f.keepTeams(t, f.group("batch", "green", nil), "blue", "red", "green")
	for name, args := range map[string][]string{
		"rollout-history.txt":      {"rollout", "history", "nodegroup/batch"},
		"rollout-history-wide.txt": {"rollout", "history", "ng", "batch", "-o", "wide"},
		"rollout-revision.txt":     {"rollout", "history", "ng/batch", "--revision=2"},
		"rollout-history.json":     {"rollout", "history", "ng/batch", "-o", "json", "--revision=3"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.run(t, args...)
			if got.code != exitOK || got.errors != "" {
				t.Errorf("code %d, stderr %q", got.code, got.errors)
			}
			golden(t, name, got.out)
		})
	}
}

// teamOf returns the label team that a NodeGroup of a cluster declares.
func teamOf(t *testing.T, c client.Client, name string) string {
	t.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: name}, group); err != nil {
		t.Fatal(err)
	}
	if group.Spec.Metadata == nil {
		return ""
	}
	return string(group.Spec.Metadata.Labels["team"])
}

func TestRolloutUndo(t *testing.T) {
	const done, none = "nodegroup.drover.dev/batch ", "no rollout history found for nodegroup.drover.dev/batch"
	orphaned := func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }
	old := func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "old" }
	two, three := []string{"blue", "red"}, []string{"blue", "red", "green"}
	for name, c := range map[string]struct {
		team        string
		teams       []string
		args        string
		out, errors string
		want        string
		change      func(*appsv1.ControllerRevision)
		applied     bool
	}{
		"the previous revision":       {team: "green", teams: three, out: done + "rolled back", want: "red"},
		"an edit that was not kept":   {team: "edited", teams: two, out: done + "rolled back", want: "red"},
		"nothing was declared before": {team: "blue", teams: []string{"", "blue"}, out: done + "rolled back", want: ""},
		"nothing is declared now":     {team: "", teams: []string{"blue", ""}, out: done + "rolled back", want: "blue"},
		"a revision":                  {team: "green", teams: three, args: "--to-revision=1", out: done + "rolled back", want: "blue"},
		"the declared revision": {
			team: "red", teams: two, args: "--to-revision=2", out: "skipped rollback (it declares revision 2 already)", want: "red",
		},
		"client dry run": {team: "red", teams: two, args: "--dry-run=client", out: done + "rolled back (dry run)", want: "red"},
		"a document":     {team: "red", teams: two, args: "-o json --dry-run=client", out: `"team": "blue"`, want: "red"},
		"written by kubectl apply": {
			team: "red", teams: two, applied: true, out: done + "rolled back", errors: "next kubectl apply", want: "blue",
		},
		"an unknown revision": {
			team: "red", teams: two, args: "--to-revision=9", errors: "unable to find specified revision 9", want: "red",
		},
		"one revision":                  {team: "red", teams: []string{"red"}, errors: "no last revision to roll back to", want: "red"},
		"no history":                    {team: "red", errors: none, want: "red"},
		"a negative revision":           {team: "red", args: "--to-revision=-1", errors: "--to-revision -1", want: "red"},
		"another namespace":             {team: "red", teams: two, args: "--drover-namespace=other", errors: `in namespace "other"`, want: "red"},
		"forged revisions":              {team: "red", teams: two, change: orphaned, errors: none, want: "red"},
		"revisions of an earlier group": {team: "red", teams: two, change: old, errors: none, want: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCluster{}
			group := f.group("batch", c.team, nil)
			if c.applied {
				group.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
			}
			for _, revision := range f.keepTeams(t, group, c.teams...) {
				if c.change != nil {
					c.change(revision)
				}
			}
			cluster := f.client()
			got := runOn(t, cluster, "", append([]string{"rollout", "undo", "nodegroup/batch"}, strings.Fields(c.args)...)...)
			if !strings.Contains(got.out, c.out) || !strings.Contains(got.errors, c.errors) || (got.code != exitOK) != (c.out == "") {
				t.Errorf("%+v", got)
			}
			if team := teamOf(t, cluster, "batch"); team != c.want {
				t.Errorf("it declares %q, want %q", team, c.want)
			}
		})
	}
}

func TestRolloutUndo_MachineSet(t *testing.T) {
	f := &fakeCluster{}
	set := f.machineSet("workers", 0, declare(nil, nil))
	template := func(image string) {
		set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"image":"` + image + `"}`)}
	}
	got := f.run(t, "rollout", "undo", "workers")
	if got.code != exitError || !strings.Contains(got.errors, "a NodeGroup with spec.replacement selects") {
		t.Errorf("without revisions: %+v", got)
	}
	var all [][]byte
	for _, image := range []string{"one", "two"} {
		template(image)
		data, err := history.MachineSetData(set)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	f.keep(t, history.OfMachineSet(f.group("batch", "", nil), set.Namespace, set.Name), all...)
	cluster := f.client()
	if got = runOn(t, cluster, "", "rollout", "undo", "machineset/workers"); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	after := &machinev1beta1.MachineSet{}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(set), after); err != nil {
		t.Fatal(err)
	}
	if image := string(after.Spec.Template.Spec.ProviderSpec.Value.Raw); !strings.Contains(image, `"one"`) {
		t.Errorf("the template has %s", image)
	}
}

func TestRolloutPauseAndResume(t *testing.T) {
	suspended := func(group *v1alpha1.NodeGroup) { group.Spec.Suspend = true }
	stopped := func(group *v1alpha1.NodeGroup) {
		group.Status.Rollout = &v1alpha1.RolloutStatus{Stopped: "2 Nodes", StopTime: &metav1.Time{Time: testTime.Add(time.Minute)}}
	}
	for name, c := range map[string]struct {
		edit        func(*v1alpha1.NodeGroup)
		args        string
		out, errors string
		suspended   bool
		resumed     string
	}{
		"pause":            {nil, "pause nodegroup/batch", "nodegroup.drover.dev/batch paused\n", "", true, ""},
		"pause, dry run":   {nil, "pause nodegroup/batch --dry-run", "nodegroup.drover.dev/batch paused (dry run)\n", "", false, ""},
		"pause, as a name": {nil, "pause ng/batch -o name", "nodegroup.drover.dev/batch\n", "", true, ""},
		"pause, a document": {
			nil, "pause ng/batch --dry-run -o jsonpath={.metadata.name}:{.spec.suspend}", "batch:true", "", false, "",
		},
		"pause again":     {suspended, "pause ng/batch", "", `nodegroups.drover.dev "batch" is already paused`, true, ""},
		"resume":          {suspended, "resume nodegroup batch", "nodegroup.drover.dev/batch resumed\n", "", false, ""},
		"resume, stopped": {stopped, "resume ng/batch", "nodegroup.drover.dev/batch resumed\n", "", false, "2026-09-01T12:01:00Z"},
		"resume, both": {
			func(group *v1alpha1.NodeGroup) { suspended(group); stopped(group) }, "resume ng/batch", "nodegroup.drover.dev/batch resumed\n", "", false, "",
		},
		"resume, unpaused":  {nil, "resume ng/batch", "", `nodegroups.drover.dev "batch" is not paused`, false, ""},
		"unknown":           {nil, "pause ng/nosuch", "", `NodeGroup "nosuch" not found`, false, ""},
		"no name":           {nil, "pause", "", "name at least one", false, ""},
		"an unknown format": {nil, "pause ng/batch -o table", "", "table", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCluster{}
			f.group("batch", "blue", c.edit)
			cluster := f.client()
			got := runOn(t, cluster, "", append([]string{"rollout"}, strings.Fields(c.args)...)...)
			if got.out != c.out || !strings.Contains(got.errors, c.errors) || (got.code == exitOK) != (c.errors == "") {
				t.Errorf("%+v", got)
			}
			group := &v1alpha1.NodeGroup{}
			if err := cluster.Get(t.Context(), types.NamespacedName{Name: "batch"}, group); err != nil {
				t.Fatal(err)
			}
			if group.Spec.Suspend != c.suspended || group.Annotations[v1alpha1.AnnotationResume] != c.resumed {
				t.Errorf("suspend %t, annotations %v", group.Spec.Suspend, group.Annotations)
			}
		})
	}
}

// TestRolloutResume_Confirm: the labels are confirmed for the roll-out that is under way, also by a computer whose clock is behind.
func TestRolloutResume_Confirm(t *testing.T) {
	f := &fakeCluster{}
	f.group("batch", "blue", func(group *v1alpha1.NodeGroup) {
		group.Status.Rollout = &v1alpha1.RolloutStatus{StartTime: &metav1.Time{Time: testTime.Add(time.Minute)}}
	})
	cluster := f.client()
	got := runOn(t, cluster, "", "rollout", "resume", "ng/batch", "--confirm-label-changes=example.com/disk,example.com/rack")
	if got.code != exitOK || got.out != "nodegroup.drover.dev/batch resumed\n" {
		t.Errorf("%+v", got)
	}
	group := &v1alpha1.NodeGroup{}
	if err := cluster.Get(t.Context(), types.NamespacedName{Name: "batch"}, group); err != nil {
		t.Fatal(err)
	}
	if value := group.Annotations[v1alpha1.AnnotationConfirm]; value != "example.com/disk,example.com/rack@2026-09-01T12:01:00Z" {
		t.Errorf("the annotation is %q", value)
	}
}

func TestRolloutPause_MachineSet(t *testing.T) {
	f := &fakeCluster{}
	set := f.machineSet("workers", 0, declare(nil, nil))
	cluster := f.client()
	for _, step := range []struct{ command, want string }{
		{"pause", "machineset.machine.openshift.io/workers paused\n"},
		{"pause", `machinesets.machine.openshift.io "workers" is already paused`},
		{"resume", "machineset.machine.openshift.io/workers resumed\n"},
		{"resume", "machineset.machine.openshift.io/workers resumed\n"},
	} {
		if got := runOn(t, cluster, "", "rollout", step.command, "workers"); !strings.Contains(got.out+got.errors, step.want) {
			t.Errorf("%s: %+v", step.command, got)
		}
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || len(set.Annotations) != 1 ||
		set.Annotations[v1alpha1.AnnotationResume] != testTime.UTC().Format(time.RFC3339) {
		t.Errorf("annotations %v, %v", set.Annotations, err)
	}
}

// withStatus sets the conditions Ready and Progressing of a NodeGroup.
func withStatus(ready, progressing string, edit func(*v1alpha1.NodeGroupStatus)) func(*v1alpha1.NodeGroup) {
	return func(group *v1alpha1.NodeGroup) {
		status := &group.Status
		status.ObservedGeneration, status.Nodes, status.Synced = group.Generation, 9, 3
		truth := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}
		status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: truth[ready == plan.ReasonSynced], Reason: ready, Message: "3 of 9 Nodes carry what is declared"},
			{Type: v1alpha1.ConditionProgressing, Status: truth[progressing == plan.ReasonRollingOut], Reason: progressing, Message: "wave 2/3 waits for n1"},
		}
		if edit != nil {
			edit(status)
		}
	}
}

func TestRolloutStatus(t *testing.T) {
	for name, c := range map[string]struct {
		edit        func(*v1alpha1.NodeGroup)
		args        string
		out, errors string
	}{
		"complete": {withStatus(plan.ReasonSynced, plan.ReasonComplete, nil), "", `nodegroup "batch" successfully rolled out` + "\n", ""},
		"rolling out": {
			withStatus(plan.ReasonNotSynced, plan.ReasonRollingOut, nil), "--watch=false",
			`Waiting for nodegroup "batch" rollout to finish: 3 of 9 nodes are synced; wave 2/3 waits for n1` + "\n", "",
		},
		"rolling out, timeout": {
			withStatus(plan.ReasonNotSynced, plan.ReasonRollingOut, nil), "--timeout=200ms", "Waiting for", "timed out after 200ms: Waiting for",
		},
		"suspended": {withStatus(plan.ReasonNotSynced, plan.ReasonSuspended, nil), "-w=false", "rollout to finish", ""},
		"not observed": {
			withStatus(plan.ReasonSynced, plan.ReasonComplete, func(s *v1alpha1.NodeGroupStatus) { s.ObservedGeneration = 2 }), "-w=false",
			`Waiting for nodegroup "batch" spec update to be observed...` + "\n", "",
		},
		"no status": {nil, "-w=false", "spec update to be observed", ""},
		"stopped": {
			withStatus(plan.ReasonNotSynced, plan.ReasonRollingOut, func(s *v1alpha1.NodeGroupStatus) {
				s.Phase = v1alpha1.PhaseStopped
				meta.SetStatusCondition(&s.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: rollout.ReasonNodesNotReady, Message: "2 Nodes have become NotReady",
				})
			}), "", "", `nodegroup "batch" has stopped: 2 Nodes have become NotReady; kubectl drover rollout resume nodegroup/batch continues it`,
		},
		"no Machine is replaced": {
			withStatus(plan.ReasonSynced, plan.ReasonComplete, func(s *v1alpha1.NodeGroupStatus) {
				meta.SetStatusCondition(&s.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: replacementplan.ReasonSurgeUnavailable, Message: "machines is off",
				})
			}), "", "", `nodegroup "batch" replaces no Machine: machines is off`,
		},
		"conflicts":        {withStatus(plan.ReasonConflicts, plan.ReasonComplete, nil), "", "", `nodegroup "batch" is not Ready (Conflicts): 3 of 9`},
		"dry run":          {withStatus(plan.ReasonNotSynced, plan.ReasonDryRun, nil), "", "", "writes no Node"},
		"revision":         {withStatus(plan.ReasonSynced, plan.ReasonComplete, nil), "--revision=2", "successfully", ""},
		"another revision": {withStatus(plan.ReasonSynced, plan.ReasonComplete, nil), "--revision=1", "", "does not declare revision 1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCluster{}
			f.keepTeams(t, f.group("batch", "red", c.edit), "blue", "red")
			got := f.run(t, append([]string{"rollout", "status", "nodegroup/batch"}, strings.Fields(c.args)...)...)
			if !strings.Contains(got.out, c.out) || !strings.Contains(got.errors, c.errors) || (got.code == exitOK) != (c.errors == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestRolloutStatus_MachineSets(t *testing.T) {
	f := mixed(t)
	f.machineSet("synced", 1, declare(nil, nil))
	for set, c := range map[string]struct {
		want string
		code int
	}{
		"synced":   {`machineset "synced" successfully rolled out`, exitOK},
		"web":      {`Waiting for machineset "web" rollout to finish: 1 of 2 machines are synced, 1 are pending`, exitOK},
		"database": {`Waiting for machineset "database" rollout to finish`, exitOK},
		"nosuch":   {`MachineSet "nosuch" not found in namespace "openshift-machine-api"`, exitError},
	} {
		if got := f.run(t, "rollout", "status", "--watch=false", set); !strings.Contains(got.out+got.errors, c.want) || got.code != c.code {
			t.Errorf("%s: %+v", set, got)
		}
	}
}

func TestRolloutStatus_Replacement(t *testing.T) {
	const hash = machineapi.TemplateHashAnnotation
	f := &fakeCluster{}
	set := f.machineSet("gpu", 3, declare(nil, nil))
	set.Spec.Replicas = new(int32(3))
	current := machineapi.TemplateOf(set).Hash()
	blocked := metav1.Condition{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Message: "the window is closed"}
	for name, c := range map[string]struct {
		// machines are the hashes of the Machines' templates.
		machines [3]string
		edit     func(*v1alpha1.NodeGroup, *machinev1beta1.Machine)
		want     string
		code     int
	}{
		"replaced": {[3]string{current, current, current}, nil, `machineset "gpu" successfully rolled out`, exitOK},
		"outdated": {
			[3]string{"v1:old", "v1:old", current}, nil, "2 machines are outdated, 2 are to be created, and nodegroup gpu replaces them\n", exitOK,
		},
		"blocked": {
			[3]string{"v1:old", current, current}, func(group *v1alpha1.NodeGroup, _ *machinev1beta1.Machine) {
				group.Status.Conditions = []metav1.Condition{blocked}
			}, "replaces them; the window is closed", exitOK,
		},
		"suspended": {
			[3]string{"v1:old", current, current}, func(group *v1alpha1.NodeGroup, _ *machinev1beta1.Machine) { group.Spec.Suspend = true },
			"replaces them; it is suspended; kubectl drover rollout resume nodegroup/gpu continues it", exitOK,
		},
		"not replaced": {[3]string{"v1:old"}, func(group *v1alpha1.NodeGroup, _ *machinev1beta1.Machine) {
			group.Spec.Replacement.Type = v1alpha1.ReplacementNone
		}, "successfully rolled out", exitOK},
		"of another group": {[3]string{"v1:old"}, func(group *v1alpha1.NodeGroup, _ *machinev1beta1.Machine) {
			group.Spec.Nodes.MachineSets.Names = []string{"other"}
		}, "successfully rolled out", exitOK},
		"new Machine failed": {[3]string{current, "v1:old", "v1:old"}, func(_ *v1alpha1.NodeGroup, machine *machinev1beta1.Machine) {
			machine.Status.ErrorMessage = new("no quota")
		}, `machineset "gpu" has stopped: machine gpu-0, which was created from its template, has failed`, exitError},
		"new Machine failed, resumed": {[3]string{current, "v1:old", "v1:old"}, func(group *v1alpha1.NodeGroup, machine *machinev1beta1.Machine) {
			machine.Status.ErrorMessage = new("no quota")
			group.Annotations = map[string]string{v1alpha1.AnnotationResume: testTime.Format(time.RFC3339)}
		}, "2 machines are outdated", exitOK},
		"outdated, excluded": {[3]string{"v1:old", current, current}, func(_ *v1alpha1.NodeGroup, machine *machinev1beta1.Machine) {
			machine.Annotations[machineapi.SkipReplacementAnnotation] = ""
		}, "successfully rolled out", exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCluster{all: slices.Clone(f.all)}
			group := f.group("gpu", "", func(group *v1alpha1.NodeGroup) {
				group.Spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: set.Namespace}}
				group.Spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
			})
			for i, hashed := range c.machines {
				machine := f.machineOf(fmt.Sprintf("gpu-%d", i))
				machine.Annotations, machine.Status.ErrorMessage = map[string]string{hash: hashed}, nil
			}
			if c.edit != nil {
				c.edit(group, f.machineOf("gpu-0"))
			}
			if got := f.run(t, "rollout", "status", "--watch=false", "gpu"); !strings.Contains(got.out+got.errors, c.want) || got.code != c.code {
				t.Errorf("%+v", got)
			}
		})
	}
}
