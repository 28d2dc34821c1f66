package cli

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	autoscalingplan "github.com/drover-io/drover/internal/autoscaling/plan"
)

// TestUninstallCheck: every object that cannot go without Drover is named, and no other one.
func TestUninstallCheck(t *testing.T) {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "batch", Finalizers: []string{v1alpha1.Finalizer}}}
	maintenance := maintenanceOf("m", "n1", medik8s.NodeMaintenanceStatus{})
	maintenance.Finalizers = []string{medik8s.Finalizer}
	autoscaler := &autoscaling.MachineAutoscaler{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: "web", Finalizers: []string{autoscalingplan.Finalizer},
	}}
	stays := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: "stays", Finalizers: []string{machinev1beta1.MachineFinalizer},
	}}
	goes := stays.DeepCopy()
	goes.Name, goes.DeletionTimestamp = "goes", &metav1.Time{Time: testTime}
	foreign := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Finalizers: []string{"example.com/other"}}}
	all := cluster(interceptor.Funcs{}, group, maintenance, autoscaler, stays, goes, foreign)
	golden(t, "uninstall-check.txt", runOn(t, all, "", "uninstall-check").out)
	runOn(t, cluster(interceptor.Funcs{}, group), "", "uninstall-check").says(t, 1, "1 objects need Drover: do not uninstall it")
	runOn(t, cluster(interceptor.Funcs{}, stays, foreign), "", "uninstall-check").says(t, 0, "No object needs Drover.")
}

// TestNoLeader: an error about what Drover has still to do says if no replica leads.
func TestNoLeader(t *testing.T) {
	const none = "no replica leads: Lease drover-system/drover "
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "batch", Finalizers: []string{v1alpha1.Finalizer}}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: "drover"}}
	for name, c := range map[string]struct {
		holder string
		age    time.Duration
		want   string
	}{
		"no holder":     {"", 0, none + "has no holder; Drover changes nothing now"},
		"a dead leader": {"drover-1_uid", time.Hour, none + "of drover-1 ended 59m ago; Drover changes nothing now"},
		"a leader":      {"drover-1_uid", time.Second, ""},
		"a forged line": {"x\nerror: forged_uid", time.Hour, none + `of x\nerror: forged ended 59m ago`},
	} {
		t.Run(name, func(t *testing.T) {
			lease.Spec = coordinationv1.LeaseSpec{
				HolderIdentity: &c.holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: testTime.Add(-c.age)},
			}
			ending := maintenanceOf("m", "n1", medik8s.NodeMaintenanceStatus{})
			ending.Finalizers = []string{medik8s.Finalizer}
			on := cluster(interceptor.Funcs{}, group, lease, ending)
			for _, args := range []string{
				"uninstall-check", "status --wait --timeout 10ms", "rollout status ng/batch --timeout 10ms", "maintenance end n1 --wait --timeout 10ms",
			} {
				got := runOn(t, on, "", strings.Fields(args)...)
				if got.code != exitError || !strings.Contains(got.errors, c.want) || c.want == "" && strings.Contains(got.errors, none) {
					t.Errorf("%s: %+v", args, got)
				}
			}
			if got := runOn(t, on, "", "plan", "nosuch"); strings.Contains(got.errors, none) {
				t.Errorf("an error of another kind: %+v", got)
			}
		})
	}
}
