package cli

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
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
