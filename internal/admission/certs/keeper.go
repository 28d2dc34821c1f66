package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/status"
)

// fieldManager is the field manager of all writes.
const fieldManager = "drover-webhook"

// Back-off of what fails.
const minBackoff, maxBackoff = time.Second, time.Minute

// Options say where the certificate is kept and whom it is for.
type Options struct {
	// Namespace and Secret are where the replicas share it.
	Namespace, Secret string
	// Configuration is the ValidatingWebhookConfiguration whose clients have to trust it.
	Configuration string
	// Names are the server's names and addresses.
	Names []string
}

// Keeper makes, renews, shares and shows a certificate. It runs on every replica. As long as there is no configuration that needs the
// certificate, it writes nothing.
type Keeper struct {
	options        Options
	secrets        coreclient.SecretInterface
	configurations admissionclient.ValidatingWebhookConfigurationInterface
	clock          clock.Clock

	configuration, secret *single
	changed               chan struct{}
	// shown is the bundle whose certificate the server shows. It fills in for a Secret that is deleted or damaged.
	shown atomic.Pointer[bundle]
	// looked tells that it is known whether there is a configuration, or that it cannot be known, and wanted that there is one.
	looked, wanted atomic.Bool
	// injected is the version of the configuration that our last patch was for.
	injected string
	told     string
	// strip is when the key of the authority, which an earlier version kept in the Secret, is taken out of it.
	strip time.Time
}

// stripAfter is how long the key of an authority stays in the Secret. Replicas of the earlier version, which run beside this one while it is rolled
// out, take a Secret without it for damaged, and make another one.
const stripAfter = 10 * time.Minute

// NewKeeper makes a keeper.
func NewKeeper(
	secrets coreclient.SecretsGetter, configurations admissionclient.ValidatingWebhookConfigurationsGetter, clock clock.Clock, options Options,
) *Keeper {
	k := &Keeper{
		options: options, secrets: secrets.Secrets(options.Namespace), configurations: configurations.ValidatingWebhookConfigurations(),
		clock: clock, changed: make(chan struct{}, 1), strip: clock.Now().Add(stripAfter),
	}
	k.configuration = newSingle(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return k.configurations.List(ctx, only(options.Configuration, o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return k.configurations.Watch(ctx, only(options.Configuration, o))
		},
	}, &admissionregistrationv1.ValidatingWebhookConfiguration{}, k.poke, func() { k.looked.Store(true) })
	k.secret = newSingle(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return k.secrets.List(ctx, only(options.Secret, o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return k.secrets.Watch(ctx, only(options.Secret, o))
		},
	}, &corev1.Secret{}, k.poke, func() {})
	return k
}

// NeedLeaderElection tells the manager that every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// GetCertificate is what a TLS server calls.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if b := k.shown.Load(); b != nil {
		return b.certificate(), nil
	}
	return nil, errors.New("the webhook has no certificate yet")
}

// Ready tells whether the webhook can be called, if anybody calls it. Where Drover may not even ask whether anybody does, there is none.
func (k *Keeper) Ready(context.Context) error {
	switch {
	case !k.looked.Load():
		return errors.New("the webhook's configuration has not been looked for yet")
	case k.wanted.Load() && k.shown.Load() == nil:
		return errors.New("the webhook has no certificate yet")
	}
	return nil
}

func (k *Keeper) poke() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Start works until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	defer k.secret.wait()
	defer k.configuration.wait()
	k.configuration.start(ctx, k.poke)
	timer := k.clock.NewTimer(maxBackoff)
	defer timer.Stop()
	failures := 0
	for {
		next, err := k.settle(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case lostRace(err):
			// Another replica was faster; what it wrote is on its way here. Should that be missed, the look is repeated.
			failures, next = 0, k.clock.Now().Add(minBackoff)
		case err != nil:
			log.FromContext(ctx).Error(err, "the webhook's certificate is not in order")
			next = k.clock.Now().Add(min(minBackoff<<min(failures, 10), maxBackoff))
			failures++
		default:
			failures = 0
		}
		if next.IsZero() {
			next = k.clock.Now().Add(servingLife)
		}
		timer.Reset(max(next.Sub(k.clock.Now()), time.Millisecond))
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-timer.C():
		}
	}
}

func lostRace(err error) bool {
	return apierrors.IsAlreadyExists(err) || status.Classify(err) == status.Stale
}

// settle puts everything in order once, and returns when to look again without an event; zero for never.
func (k *Keeper) settle(ctx context.Context) (time.Time, error) {
	if !k.configuration.synced() {
		return time.Time{}, nil
	}
	configuration, ok := k.configuration.get().(*admissionregistrationv1.ValidatingWebhookConfiguration)
	k.wanted.Store(ok)
	k.looked.Store(true)
	if !ok {
		k.tell(ctx, "there is no ValidatingWebhookConfiguration of this name, so nobody asks the webhook; the CRDs and the controllers check alone")
		return time.Time{}, nil
	}
	k.secret.start(ctx, k.poke)
	if !k.secret.synced() {
		return time.Time{}, nil
	}
	current, next, err := k.ensure(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if k.shown.Load() == nil {
		k.show(ctx, current)
	}
	// Clients trust a new certificate before it is shown.
	if err := k.inject(ctx, configuration, current.trusted()); err != nil {
		return time.Time{}, err
	}
	k.show(ctx, current)
	k.tell(ctx, "serving the webhook with a certificate of our own")
	return next, nil
}

// tell logs what the state is when it is another one.
func (k *Keeper) tell(ctx context.Context, what string) {
	if k.told != what {
		k.told = what
		log.FromContext(ctx).Info(what, "configuration", k.options.Configuration)
	}
}

func (k *Keeper) show(ctx context.Context, b *bundle) {
	before := k.shown.Swap(b)
	if before == nil || !before.serving.certificate.Equal(b.serving.certificate) {
		certificate := b.serving.certificate
		log.FromContext(ctx).Info("certificate of the webhook", "serial", fmt.Sprintf("%x", certificate.SerialNumber),
			"notAfter", certificate.NotAfter, "names", certificate.DNSNames, "addresses", certificate.IPAddresses)
	}
}

// ensure returns the bundle of the Secret, after it has made or renewed what has to be.
func (k *Keeper) ensure(ctx context.Context) (*bundle, time.Time, error) {
	stored, _ := k.secret.get().(*corev1.Secret)
	current, err := k.read(ctx, stored)
	if err != nil {
		return nil, time.Time{}, err
	}
	fresh := current != nil
	if current == nil {
		current = k.shown.Load()
	}
	now := k.clock.Now()
	step := plan(current, k.options.Names, now)
	if fresh && step.idle() {
		if stored == nil || len(stored.Data[keyAuthorityKey]) == 0 {
			return current, step.next, nil
		}
		if now.Before(k.strip) {
			return current, earlier(step.next, k.strip), nil
		}
		k.strip = now.Add(stripAfter)
	}
	if current, err = step.apply(current, k.options.Names, now); err != nil {
		return nil, time.Time{}, err
	}
	if err := k.store(ctx, stored, current); err != nil {
		return nil, time.Time{}, err
	}
	return current, plan(current, k.options.Names, now).next, nil
}

// read returns what the Secret holds, nil when there is nothing that could be used. What is not Drover's is not replaced.
func (k *Keeper) read(ctx context.Context, secret *corev1.Secret) (*bundle, error) {
	if secret == nil || blank(secret.Data) {
		return nil, nil
	}
	b, err := decode(secret.Data)
	switch {
	case err == nil:
		return b, nil
	case secret.Labels[labelManagedBy] != managedBy:
		return nil, fmt.Errorf("the Secret %s/%s is not Drover's, so it is left as it is: name another one, or serve the certificate as files (%w)",
			secret.Namespace, secret.Name, err)
	}
	log.FromContext(ctx).Info("the Secret of the webhook's certificate is damaged and made anew", "secret", secret.Name, "why", err.Error())
	return nil, nil
}

func blank(data map[string][]byte) bool {
	for _, value := range data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}
