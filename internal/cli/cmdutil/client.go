package cmdutil

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
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
	return newTolerantClient(config, o.ErrOut)
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

// tolerantClient tolerates custom resources that cannot be decoded.
type tolerantClient struct {
	client.WithWatch

	config *rest.Config
	http   *http.Client
	codecs serializer.CodecFactory
	// warnings gets a line for each object that cannot be decoded, once.
	warnings io.Writer

	mu   sync.Mutex
	said map[string]bool
}

// maxSaid is how many objects that cannot be decoded are named.
const maxSaid = 1000

func newTolerantClient(config *rest.Config, warnings io.Writer) (*tolerantClient, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	all, err := client.NewWithWatch(config, client.Options{Scheme: Scheme, Mapper: Mapper(), HTTPClient: shared})
	if err != nil {
		return nil, err
	}
	return &tolerantClient{WithWatch: all, config: config, http: shared, codecs: serializer.NewCodecFactory(Scheme), warnings: warnings}, nil
}

// List reads a list. A custom resource that cannot be decoded is read without the fields concerned, with a warning.
func (c *tolerantClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	kinds, _, err := Scheme.ObjectKinds(list)
	if err != nil || clientgoscheme.Scheme.Recognizes(kinds[0]) {
		return c.WithWatch.List(ctx, list, options...)
	}
	of := (&client.ListOptions{}).ApplyOptions(options)
	source, err := c.source(kinds[0].GroupVersion().WithKind(strings.TrimSuffix(kinds[0].Kind, "List")), of.Namespace)
	if err != nil {
		return err
	}
	read, err := source.ListWatch().ListWithContextFunc(ctx, *of.AsListOptions())
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(read)
	if err != nil {
		return err
	}
	for _, item := range items {
		c.warn(item)
	}
	from, err := meta.ListAccessor(read)
	if err != nil {
		return err
	}
	list.SetResourceVersion(from.GetResourceVersion())
	list.SetContinue(from.GetContinue())
	list.SetRemainingItemCount(from.GetRemainingItemCount())
	return meta.SetList(list, items)
}

// Watch watches a list. An event whose custom resource cannot be decoded has it without the fields concerned, and the watch goes on.
func (c *tolerantClient) Watch(ctx context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	kinds, _, err := Scheme.ObjectKinds(list)
	if err != nil || clientgoscheme.Scheme.Recognizes(kinds[0]) {
		return c.WithWatch.Watch(ctx, list, options...)
	}
	of := (&client.ListOptions{}).ApplyOptions(options)
	source, err := c.source(kinds[0].GroupVersion().WithKind(strings.TrimSuffix(kinds[0].Kind, "List")), of.Namespace)
	if err != nil {
		return nil, err
	}
	return source.ListWatch().WatchFuncWithContext(ctx, *of.AsListOptions())
}

// source returns what reads the objects of a kind, of a namespace if one is given.
func (c *tolerantClient) source(kind schema.GroupVersionKind, namespace string) (*undecodable.Source, error) {
	mapping, err := Mapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	lists, err := apiutil.RESTClientForGVK(kind, true, false, c.config, c.codecs, c.http)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	return &undecodable.Source{Lists: lists, Watches: lists, Resource: mapping.Resource.Resource, Namespace: namespace, Decode: decoderOf(kind)}, nil
}

func decoderOf(kind schema.GroupVersionKind) func(text []byte) (client.Object, error) {
	return func(text []byte) (client.Object, error) {
		object, err := Scheme.New(kind)
		if err != nil {
			return nil, err
		}
		into, ok := object.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", object)
		}
		return into, undecodable.Decode(text, into)
	}
}

// warn says of an object that cannot be decoded that Drover does not act on it.
func (c *tolerantClient) warn(item runtime.Object) {
	object, ok := item.(client.Object)
	if !ok {
		return
	}
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
