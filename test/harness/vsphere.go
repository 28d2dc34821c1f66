package harness

import (
	"context"
	"encoding/json"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/vcenter"
)

// StartVCenter starts a vCenter, with what Drover needs to know of it in the cluster. Both end with the test.
func (w *World) StartVCenter(options cluster.VCenterOptions) *vcenter.Site {
	w.Helper()
	site, err := w.Cluster.StartVCenter(w.Context(), options)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := w.Cluster.StopVCenter(); err != nil {
			w.Error(err)
		}
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-config-managed"}}
	if err := w.Client.Create(w.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		w.Fatal(err)
	}
	for _, object := range site.Objects(cluster.MachineNamespace) {
		w.create(object)
		w.Cleanup(func() {
			if err := w.Client.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				w.Error(err)
			}
		})
	}
	return site
}

// MakeVSpherePool makes a MachineSet whose Machines are virtual machines of a vCenter.
func (w *World) MakeVSpherePool(site *vcenter.Site, name string, replicas int32, change func(*machinev1beta1.VSphereMachineProviderSpec)) *Pool {
	w.Helper()
	set := NewMachineSet(name, replicas)
	spec := site.ProviderSpec()
	if change != nil {
		change(spec)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		w.Fatal(err)
	}
	set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	w.create(set)
	p := &Pool{World: w, Name: name}
	w.Cleanup(p.remove)
	return p
}
