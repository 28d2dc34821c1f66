package cli

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/version"
)

// scheme knows the kinds that the plugin reads.
var scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(machinev1beta1.Install(s))
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, policyv1.AddToScheme, appsv1.AddToScheme, medik8s.AddToScheme, kubevirt.AddToScheme, mutex.AddToScheme,
		batchv1.AddToScheme, mcfgv1.Install, configv1.Install,
	} {
		utilruntime.Must(add(s))
	}
	return s
}

// mapper saves the requests of discovery: the kinds are known, and a kind that is not served is noticed when it is listed.
func mapper() meta.RESTMapper {
	machine, core := machinev1beta1.GroupVersion, corev1.SchemeGroupVersion
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{machine, core})
	m.Add(machine.WithKind("MachineSet"), meta.RESTScopeNamespace)
	m.Add(machine.WithKind("Machine"), meta.RESTScopeNamespace)
	m.Add(core.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(core.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), meta.RESTScopeNamespace)
	m.Add(medik8s.GroupVersion.WithKind("NodeMaintenance"), meta.RESTScopeRoot)
	m.Add(kubevirt.GroupVersion.WithKind("NodeMaintenance"), meta.RESTScopeRoot)
	for _, kind := range []string{"MutexRule", "MutexTarget", "MutexRunConfig"} {
		m.Add(mutex.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	m.Add(mcfgv1.GroupVersion.WithKind("MachineConfigPool"), meta.RESTScopeRoot)
	m.Add(mcfgv1.GroupVersion.WithKind("MachineConfig"), meta.RESTScopeRoot)
	m.Add(configv1.GroupVersion.WithKind("ClusterVersion"), meta.RESTScopeRoot)
	return m
}

// dial makes the client from the kubeconfig flags. Nodes travel as protobuf, which is several times faster to read than JSON.
func (o *options) dial() (client.WithWatch, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 300
	config.UserAgent = "kubectl-drover/" + version.Version()
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client from the kubeconfig: %w", err)
	}
	return c, nil
}
