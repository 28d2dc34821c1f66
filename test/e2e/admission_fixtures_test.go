package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/harness"
)

// The names in config/webhook.
const (
	configurationName = "drover"
	certificateName   = "drover-webhook"
)

// webhookWorld is a control plane with webhooks.
type webhookWorld struct {
	*harness.World
}

func newWebhookWorld(t *testing.T) *webhookWorld { return &webhookWorld{harness.NewWorld(t, env)} }

// address is one on the loopback interface that is free.
func (w *webhookWorld) address() string {
	w.Helper()
	address, err := harness.FreeAddress()
	if err != nil {
		w.Fatal(err)
	}
	return address
}

// serve starts an operator with a webhook at an address, and waits until it is ready.
func (w *webhookWorld) serve(address string, options harness.Options) *harness.Operator {
	w.Helper()
	options.Args = append([]string{"--webhook-bind-address=" + address, "--webhook-extra-names=127.0.0.1"}, options.Args...)
	return w.Operator(options)
}

// configure installs the shipped configuration, with an address in the place of the Service, and removes it with its Secret when the test
// ends.
func (w *webhookWorld) configure(address string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	w.Helper()
	folder, err := harness.Folder("config/webhook")
	if err != nil {
		w.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "configuration.yaml"))
	if err != nil {
		w.Fatal(err)
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(text, configuration); err != nil {
		w.Fatal(err)
	}
	for i := range configuration.Webhooks {
		clientConfig := &configuration.Webhooks[i].ClientConfig
		clientConfig.URL = new("https://" + address + *clientConfig.Service.Path)
		clientConfig.Service = nil
	}
	w.CreateWithCleanup(configuration)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: certificateName}}
		if err := w.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			w.Error(err)
		}
	})
	return configuration
}

// guarded starts an operator whose webhook the API server asks, and waits until it does.
func guarded(t *testing.T, options harness.Options) *webhookWorld {
	t.Helper()
	w := newWebhookWorld(t)
	address := w.address()
	w.configure(address)
	w.serve(address, options)
	w.asked()
	return w
}

// asked waits until the API server asks the webhooks of both groups, and trusts them.
func (w *webhookWorld) asked() {
	w.Helper()
	for _, object := range both("asked", "no-such-node") {
		w.Eventually("the webhook is asked", func() error {
			err := w.Client.Create(w.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll) //nolint:errcheck // it is one
			if err == nil || !strings.Contains(err.Error(), "no node with name no-such-node found") {
				return fmt.Errorf("creating a NodeMaintenance of no node: %w", err)
			}
			return nil
		})
	}
}

// both makes a NodeMaintenance of each group.
func both(name, node string) []client.Object {
	return []client.Object{medik8sOf(name, node), kubevirtOf(name, node)}
}

func medik8sOf(name, node string) *medik8s.NodeMaintenance {
	return &medik8s.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: medik8s.NodeMaintenanceSpec{NodeName: node, Reason: "a test"},
	}
}

func kubevirtOf(name, node string) *kubevirt.NodeMaintenance {
	return &kubevirt.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubevirt.NodeMaintenanceSpec{NodeName: node, Reason: "a test"},
	}
}

// node makes a Node that is ready, or not.
func (w *webhookWorld) node(name string, ready corev1.ConditionStatus, labels ...string) {
	w.Helper()
	node := builder.Node(name, builder.WithReady(ready))
	for _, label := range labels {
		node.Labels[label] = ""
	}
	w.CreateWithCleanup(node)
}

// create makes an object that is removed when the test ends, with everything that it has created: no controller works on it then.
func (w *webhookWorld) create(object client.Object) error {
	w.Helper()
	err := w.Client.Create(w.Context(), object)
	if err == nil {
		w.Cleanup(func() { w.remove(object) })
	}
	return err
}

// remove deletes a NodeMaintenance without its finalizer, as there may be no operator any more.
func (w *webhookWorld) remove(object client.Object) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	if err := w.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		w.Error(err)
	}
	err := harness.WaitFor(ctx, func() error {
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		err = w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		return fmt.Errorf("it is there still (%w)", err)
	})
	if err != nil {
		w.Errorf("removing %T %s: %v", object, object.GetName(), err)
	}
}

// refused fails the test unless the error has all of the texts.
func (w *webhookWorld) refused(err error, texts ...string) {
	w.Helper()
	if err == nil {
		w.Errorf("it is taken, want it refused with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			w.Errorf("refused with %q, want %q in it", err, text)
		}
	}
}

// denied fails the test unless a webhook has denied the request, with this whole text.
func (w *webhookWorld) denied(err error, text string) {
	w.Helper()
	if err == nil {
		w.Errorf("the request is allowed, want it denied with %q", text)
		return
	}
	if _, got, _ := strings.Cut(err.Error(), " denied the request: "); got != text {
		w.Errorf("denied with %q, want %q", err, text)
	}
}

// claimedText is how node-maintenance-operator denies a second NodeMaintenance of a node.
func claimedText(node string) string {
	return "invalid nodeName, a NodeMaintenance for node " + node + " already exists"
}

// inMaintenance waits until a Node has the record of a cordon.
func (w *webhookWorld) inMaintenance(node string) {
	w.Helper()
	w.AwaitNode(node, "the cordon", func(n *corev1.Node) error {
		if !n.Spec.Unschedulable {
			return fmt.Errorf("it is not cordoned")
		}
		return nil
	})
}

// quorumText is how node-maintenance-operator denies a NodeMaintenance of a control-plane node, in the object's group.
func quorumText(object client.Object, node string) string {
	if _, ok := object.(*kubevirt.NodeMaintenance); ok {
		return "can not put master node into maintenance at this moment, it would violate the master quorum"
	}
	return "can not put master/control-plane node into maintenance at this moment, disrupting node " + node + " will violate etcd quorum"
}

// trusts reports whether every webhook of the configuration has an authority, and the same.
func (w *webhookWorld) trusts() ([]byte, error) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.Client.Get(w.Context(), types.NamespacedName{Name: configurationName}, configuration); err != nil {
		return nil, err
	}
	first := configuration.Webhooks[0].ClientConfig.CABundle
	for i := range configuration.Webhooks {
		if found := configuration.Webhooks[i].ClientConfig.CABundle; len(found) == 0 || !bytes.Equal(found, first) {
			return nil, fmt.Errorf("webhook %s trusts %d bytes", configuration.Webhooks[i].Name, len(found))
		}
	}
	return first, nil
}

func phaseOf(object client.Object) medik8s.Phase {
	switch typed := object.(type) {
	case *medik8s.NodeMaintenance:
		return typed.Status.Phase
	case *kubevirt.NodeMaintenance:
		return typed.Status.Phase
	}
	return ""
}

func jsonPatch(text string) client.Patch { return client.RawPatch(types.JSONPatchType, []byte(text)) }

// certificateAt is what the server at an address shows.
func certificateAt(ctx context.Context, address string) (*x509.Certificate, error) {
	//nolint:gosec // the caller verifies what it gets
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	state := connection.(*tls.Conn).ConnectionState() //nolint:errcheck,forcetypeassert // a tls.Dialer makes no other
	if state.NegotiatedProtocol != "http/1.1" {
		return nil, fmt.Errorf("it speaks %q", state.NegotiatedProtocol)
	}
	return state.PeerCertificates[0], nil
}

// verify does what the API server does with the certificate of a webhook at an address.
func verify(certificate *x509.Certificate, trusted []byte) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	for _, name := range []string{"127.0.0.1", "drover-webhook.drover-system.svc"} {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			return err
		}
	}
	return nil
}
