package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi/machinejson"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/internal/version"
)

// FieldManager is the field manager of the plugin's writes.
const FieldManager = client.FieldOwner("kubectl-drover")

// Scheme has the types that the plugin reads and writes.
var Scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		authorizationv1.AddToScheme, coordinationv1.AddToScheme, admissionv1.AddToScheme,
		machinev1beta1.Install, corev1.AddToScheme, policyv1.AddToScheme, appsv1.AddToScheme, medik8s.AddToScheme, kubevirt.AddToScheme,
		mutex.AddToScheme, drover.AddToScheme, batchv1.AddToScheme, mcfgv1.Install, configv1.Install, autoscaling.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}

// clusterScoped are the kinds without a namespace.
var clusterScoped = sets.New("Node", "NodeGroup", "NodeMaintenance", "PersistentVolume", "MachineConfigPool", "MachineConfig", "ClusterVersion",
	"SelfSubjectAccessReview", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration")

// Mapper returns the resources of the kinds of the Scheme. It saves requests of discovery: List and Get show whether the cluster serves a
// kind.
var Mapper = sync.OnceValue(func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range Scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		if clusterScoped.Has(strings.TrimSuffix(kind.Kind, "List")) {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(kind, scope)
	}
	return mapper
})

func (o *Options) restConfig() (*rest.Config, error) {
	config, err := o.Config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 300
	config.UserAgent = "kubectl-drover/" + version.Version()
	return config, nil
}

// connect returns a client for the kubeconfig flags. It reads Nodes as protobuf, which is several times faster than JSON.
func (o *Options) connect() (client.WithWatch, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	all, err := client.NewWithWatch(config, client.Options{Scheme: Scheme, Mapper: Mapper()})
	if err != nil {
		return nil, err
	}
	machines, err := machinejson.Client(config, serializer.NewCodecFactory(Scheme))
	return &machineClient{WithWatch: all, machines: machines, warnings: o.ErrOut}, err
}

// get reads a path of the API server that is no object.
func (o *Options) get(ctx context.Context, path string) ([]byte, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(Scheme).WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return c.Get().RequestURI(path).Do(ctx).Raw()
}

// machineClient also lists Machines while it reads them, and tolerates objects that cannot be decoded.
type machineClient struct {
	client.WithWatch

	machines rest.Interface
	// warnings gets a line for each object that cannot be decoded, once.
	warnings io.Writer

	mu   sync.Mutex
	said map[string]bool
}

// maxSaid is how many objects that cannot be decoded are named.
const maxSaid = 1000

// List reads a list. An object that cannot be decoded is read without the fields concerned, with a warning.
func (c *machineClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if machines, ok := list.(*machinev1beta1.MachineList); ok && c.machines != nil {
		return c.listMachines(ctx, machines, options)
	}
	err := c.WithWatch.List(ctx, list, options...)
	if apiStatus := apierrors.APIStatus(nil); err == nil || errors.As(err, &apiStatus) || ctx.Err() != nil {
		return err
	}
	kinds, _, unknown := Scheme.ObjectKinds(list)
	if unknown != nil || len(kinds) != 1 {
		return err
	}
	raw := &unstructured.UnstructuredList{}
	raw.SetGroupVersionKind(kinds[0])
	if c.WithWatch.List(ctx, raw, options...) != nil {
		// It is no matter of one object: the first error says why.
		return err
	}
	return c.decode(raw, list)
}

// warn says of an object that cannot be decoded that Drover does not act on it.
func (c *machineClient) warn(object client.Object) {
	problem := undecodable.Check(object)
	if problem == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text := problem.Error()
	if c.said[text] || len(c.said) >= maxSaid {
		return
	}
	if c.said == nil {
		c.said = map[string]bool{}
	}
	c.said[text] = true
	// What the command shows does not depend on it.
	_, _ = fmt.Fprintf(c.warnings, "warning: %s\n", text)
}

// decode sets the items of a list.
func (c *machineClient) decode(raw *unstructured.UnstructuredList, list client.ObjectList) error {
	objects, err := undecodable.DecodeList(raw, func(kind schema.GroupVersionKind) (client.Object, error) {
		object, err := Scheme.New(kind)
		if err != nil {
			return nil, err
		}
		known, ok := object.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", object)
		}
		return known, nil
	})
	if err != nil {
		return err
	}
	items := make([]runtime.Object, len(objects))
	for i, object := range objects {
		c.warn(object)
		items[i] = object
	}
	list.SetResourceVersion(raw.GetResourceVersion())
	list.SetContinue(raw.GetContinue())
	return meta.SetList(list, items)
}

// listMachines reads a page of Machines.
func (c *machineClient) listMachines(ctx context.Context, list *machinev1beta1.MachineList, options []client.ListOption) error {
	var of client.ListOptions
	of.ApplyOptions(options)
	metadata, err := machinejson.List(ctx, c.machines, of.Namespace, *of.AsListOptions(), func(machine *machinev1beta1.Machine) {
		c.warn(machine)
		list.Items = append(list.Items, *machine)
	})
	list.ListMeta = metadata
	return err
}

// stream returns all Machines, of a namespace if one is given, without what no command reads of them.
func (c *machineClient) stream(ctx context.Context, namespace string) (all []*machinev1beta1.Machine, err error) {
	trim := trimmer()
	_, err = machinejson.List(ctx, c.machines, namespace, metav1.ListOptions{}, func(machine *machinev1beta1.Machine) {
		c.warn(machine)
		trim(machine)
		all = append(all, machine)
	})
	return all, err
}
