// Package certs provides the certificate of the webhook server. Either Drover creates and renews it, and its replicas share it in a Secret, or
// another program writes it to files.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/status"
)

// fieldManager is the field manager of all writes.
const fieldManager = "drover-webhook"

// The delays after failures.
const minBackoff, maxBackoff = time.Second, time.Minute

// keepAuthorityKey is how long the key of an authority stays in the Secret. Replicas of the earlier version, which run during an upgrade, take a
// Secret without it for damaged, and create another one.
const keepAuthorityKey = 10 * time.Minute

// The label of a Secret that Drover may replace.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "drover"
)

// Options configure a Keeper.
type Options struct {
	// Namespace and Secret are where the replicas share the certificate.
	Namespace, Secret string
	// Configuration is the ValidatingWebhookConfiguration whose clients have to trust it.
	Configuration string
	// Names are the server's DNS names and IP addresses.
	Names []string
}

// Keeper creates, renews, shares and serves the certificate of the webhook. It runs on every replica. As long as there is no
// ValidatingWebhookConfiguration it writes nothing.
//
// It watches two objects by their names: Drover is not permitted to list the Secrets of its namespace, or other webhook configurations.
type Keeper struct {
	options Options
	client  kubernetes.Interface
	clock   clock.WithTicker
	// queue has one item, which asks for a reconciliation.
	queue                 workqueue.TypedRateLimitingInterface[struct{}]
	configuration, secret toolscache.SharedIndexInformer
	watchSecret           sync.Once
	watches               wait.Group

	// served is the bundle whose certificate the server serves. A Secret that is deleted or damaged is written again from it.
	served atomic.Pointer[bundle]
	// looked is set once it is known whether there is a configuration, or that this cannot be known; wanted if there is one.
	looked, wanted atomic.Bool
	// injected is the resourceVersion of the configuration that was patched last.
	injected string
	// logged is the state that was logged last.
	logged string
	// removeKey is when the key of an authority is removed from the Secret.
	removeKey time.Time
}

// NewKeeper returns a keeper.
func NewKeeper(kube kubernetes.Interface, clock clock.WithTicker, options Options) *Keeper {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[struct{}](minBackoff, maxBackoff)
	k := &Keeper{
		options: options, client: kube, clock: clock, removeKey: clock.Now().Add(keepAuthorityKey),
		queue:         workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[struct{}]{Clock: clock}),
		configuration: admissioninformers.NewFilteredValidatingWebhookConfigurationInformer(kube, 0, nil, named(options.Configuration)),
		secret:        coreinformers.NewFilteredSecretInformer(kube, options.Namespace, 0, nil, named(options.Secret)),
	}
	k.handle(k.configuration, func() { k.looked.Store(true) })
	k.handle(k.secret, func() {})
	return k
}

// named limits a request to the object of one name.
func named(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// handle asks for a reconciliation when an object changes. failed is called when it cannot be watched.
func (k *Keeper) handle(informer toolscache.SharedIndexInformer, failed func()) {
	// Neither call fails before the informer starts.
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { k.enqueue() }, UpdateFunc: func(any, any) { k.enqueue() }, DeleteFunc: func(any) { k.enqueue() },
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *toolscache.Reflector, err error) {
		failed()
		log.FromContext(ctx).Info("cannot watch what the webhook's certificate depends on; trying again", "error", err.Error())
	})
}

func (k *Keeper) enqueue() { k.queue.Add(struct{}{}) }

// watch starts an informer, and asks for a reconciliation when it has synced: if the object does not exist there is no event.
func (k *Keeper) watch(ctx context.Context, informer toolscache.SharedIndexInformer) {
	k.watches.StartWithContext(ctx, informer.RunWithContext)
	k.watches.Start(func() {
		if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			k.enqueue()
		}
	})
}

// only returns the object that an informer watches, if it exists.
func only[T any](informer toolscache.SharedIndexInformer) (object T, exists bool) {
	for _, stored := range informer.GetStore().List() {
		object, exists = stored.(T)
	}
	return object, exists
}

// NeedLeaderElection returns false: every replica serves the webhook.
func (k *Keeper) NeedLeaderElection() bool { return false }

// GetCertificate returns the certificate for a TLS server.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if b := k.served.Load(); b != nil {
		return b.serving, nil
	}
	return nil, errors.New("the webhook has no certificate yet")
}

// Ready returns an error while the API server may call the webhook and there is no certificate. Without the permission to read the
// configuration there is no webhook, and Drover is ready for everything else.
func (k *Keeper) Ready(context.Context) error {
	switch {
	case !k.looked.Load():
		return errors.New("the webhook's configuration has not been read yet")
	case k.wanted.Load() && k.served.Load() == nil:
		return errors.New("the webhook has no certificate yet")
	}
	return nil
}

// Start runs until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	defer k.watches.Wait()
	defer context.AfterFunc(ctx, k.queue.ShutDown)()
	k.watch(ctx, k.configuration)
	for {
		item, shutdown := k.queue.Get()
		if shutdown {
			return nil
		}
		next, err := k.reconcile(ctx)
		switch {
		case ctx.Err() != nil:
		case apierrors.IsAlreadyExists(err) || status.Classify(err) == status.Stale:
			// Another replica has written first, and the event is on its way.
			k.queue.AddAfter(item, minBackoff)
		case err != nil:
			log.FromContext(ctx).Error(err, "cannot provide the webhook's certificate; trying again")
			k.queue.AddRateLimited(item)
		default:
			k.queue.Forget(item)
			if !next.IsZero() {
				k.queue.AddAfter(item, max(next.Sub(k.clock.Now()), time.Millisecond))
			}
		}
		k.queue.Done(item)
	}
}

// reconcile brings everything in order, and returns when to check again without an event; zero is never.
func (k *Keeper) reconcile(ctx context.Context) (time.Time, error) {
	if !k.configuration.HasSynced() {
		return time.Time{}, nil
	}
	configuration, exists := only[*admissionregistrationv1.ValidatingWebhookConfiguration](k.configuration)
	k.wanted.Store(exists)
	k.looked.Store(true)
	if !exists {
		k.logState(ctx, "there is no ValidatingWebhookConfiguration of this name, so the API server does not call the webhook; "+
			"the CRDs and the controllers validate without it")
		return time.Time{}, nil
	}
	k.watchSecret.Do(func() { k.watch(ctx, k.secret) })
	if !k.secret.HasSynced() {
		return time.Time{}, nil
	}
	current, next, err := k.ensure(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if k.served.Load() == nil {
		k.serve(ctx, current)
	}
	// Clients trust a new certificate before it is served.
	if err := k.inject(ctx, configuration, current); err != nil {
		return time.Time{}, err
	}
	k.serve(ctx, current)
	k.logState(ctx, "serving the webhook with a certificate that Drover renews")
	return next, nil
}

// logState logs a state if it is not the last one.
func (k *Keeper) logState(ctx context.Context, state string) {
	if k.logged != state {
		k.logged = state
		log.FromContext(ctx).Info(state, "configuration", k.options.Configuration)
	}
}

func (k *Keeper) serve(ctx context.Context, b *bundle) {
	before := k.served.Swap(b)
	if certificate := b.serving.Leaf; before == nil || !before.serving.Leaf.Equal(certificate) {
		log.FromContext(ctx).Info("certificate of the webhook", "serial", fmt.Sprintf("%x", certificate.SerialNumber),
			"notAfter", certificate.NotAfter, "names", certificate.DNSNames, "addresses", certificate.IPAddresses)
	}
}

// ensure returns the bundle of the Secret, and when it has to be checked again. It creates or renews what is due.
func (k *Keeper) ensure(ctx context.Context) (*bundle, time.Time, error) {
	stored, _ := only[*corev1.Secret](k.secret)
	current, err := k.read(ctx, stored)
	if err != nil {
		return nil, time.Time{}, err
	}
	now, write := k.clock.Now(), current == nil
	if current == nil {
		current = k.served.Load()
	}
	step := plan(current, k.options.Names, now)
	if !write && step.idle() {
		if len(stored.Data[keyAuthorityKey]) == 0 {
			return current, step.next, nil
		}
		if now.Before(k.removeKey) {
			return current, earlier(step.next, k.removeKey), nil
		}
		k.removeKey = now.Add(keepAuthorityKey)
	}
	if current, err = step.apply(current, k.options.Names, now); err != nil {
		return nil, time.Time{}, err
	}
	return current, plan(current, k.options.Names, now).next, k.write(ctx, stored, current)
}

// read returns the bundle in a Secret, nil if it has none that can be used. It fails if the Secret belongs to another program.
func (k *Keeper) read(ctx context.Context, secret *corev1.Secret) (*bundle, error) {
	if secret == nil || isEmpty(secret.Data) {
		return nil, nil
	}
	if secret.Labels[labelManagedBy] != managedBy {
		return nil, fmt.Errorf("the Secret %s/%s belongs to another program, and Drover does not change it: set webhook.secretName to another name, "+
			"or webhook.certificates to Files", secret.Namespace, secret.Name)
	}
	b, err := decode(secret.Data)
	if err == nil {
		return b, nil
	}
	log.FromContext(ctx).Info("the Secret of the webhook's certificate is damaged; Drover writes it again", "secret", secret.Name, "reason", err.Error())
	return nil, nil
}

func isEmpty(data map[string][]byte) bool {
	for _, value := range data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

// write writes a bundle. It fails if another replica has written since the Secret was read.
func (k *Keeper) write(ctx context.Context, stored *corev1.Secret, b *bundle) error {
	data, err := b.encode()
	if err != nil {
		return fmt.Errorf("encoding the webhook's certificate: %w", err)
	}
	secrets := k.client.CoreV1().Secrets(k.options.Namespace)
	if stored == nil {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: k.options.Secret, Labels: map[string]string{"app.kubernetes.io/name": "drover", labelManagedBy: managedBy}},
			Type:       corev1.SecretTypeTLS, Data: data,
		}, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		// Its resourceVersion is the guard.
		changed := stored.DeepCopy()
		metav1.SetMetaDataLabel(&changed.ObjectMeta, labelManagedBy, managedBy)
		changed.Data = data
		_, err = secrets.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", k.options.Namespace, k.options.Secret, err)
	}
	return nil
}

// inject has the clients of all webhooks of a configuration trust a bundle.
func (k *Keeper) inject(ctx context.Context, configuration *admissionregistrationv1.ValidatingWebhookConfiguration, b *bundle) error {
	trusted, err := b.caBundle()
	if err != nil {
		return err
	}
	outdated := func(webhook admissionregistrationv1.ValidatingWebhook) bool {
		return !bytes.Equal(webhook.ClientConfig.CABundle, trusted)
	}
	if !slices.ContainsFunc(configuration.Webhooks, outdated) || configuration.ResourceVersion == k.injected {
		// The event of the last patch may not have arrived yet.
		return nil
	}
	changed := configuration.DeepCopy()
	for i := range changed.Webhooks {
		changed.Webhooks[i].ClientConfig.CABundle = trusted
	}
	patch := client.StrategicMergeFrom(configuration, client.MergeFromWithOptimisticLock{})
	data, err := patch.Data(changed)
	if err != nil {
		return err
	}
	_, err = k.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, configuration.Name, patch.Type(), data,
		metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("writing caBundle of ValidatingWebhookConfiguration %s: %w", configuration.Name, err)
	}
	k.injected = configuration.ResourceVersion
	log.FromContext(ctx).Info("caBundle written", "configuration", configuration.Name)
	return nil
}
