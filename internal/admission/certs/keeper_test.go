package certs

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// Who has not been given the webhook's roles has no webhook, and is ready for everything else.
func TestAnOperatorWithoutTheRolesIsReady(t *testing.T) {
	clients := fake.NewClientset()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "drover", nil)
	clients.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	clients.PrependWatchReactor("*", clienttesting.DefaultWatchReactor(nil, forbidden))
	k := NewKeeper(clients.CoreV1(), clients.AdmissionregistrationV1(), clocktesting.NewFakeClock(epoch), Options{
		Namespace: "n", Secret: "s", Configuration: "drover", Names: names,
	})
	if err := k.Ready(t.Context()); err == nil {
		t.Error("it is ready before it has looked")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Start(ctx) }()
	limit, ticker := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for k.Ready(ctx) != nil {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatal(k.Ready(ctx))
		}
	}
	if certificate, err := k.GetCertificate(nil); certificate != nil || err == nil {
		t.Errorf("it shows %v", certificate)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, action := range clients.Actions() {
		if verb := action.GetVerb(); verb != "list" && verb != "watch" {
			t.Errorf("it tried to %s %s", verb, action.GetResource().Resource)
		}
	}
}

func TestInjection(t *testing.T) {
	webhooks := func(bundles ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		for i, text := range bundles {
			webhook := admissionregistrationv1.ValidatingWebhook{Name: string(rune('a' + i))}
			webhook.ClientConfig.CABundle = []byte(text)
			configuration.Webhooks = append(configuration.Webhooks, webhook)
		}
		return configuration
	}
	for name, c := range map[string]struct {
		before *admissionregistrationv1.ValidatingWebhookConfiguration
		want   string
	}{
		"no webhook":        {webhooks(), ""},
		"all are as wanted": {webhooks("CA", "CA"), ""},
		"one lacks it":      {webhooks("CA", ""), "test /webhooks/1/name, add /webhooks/1/clientConfig/caBundle"},
		"all have another": {webhooks("x", "y"), "test /webhooks/0/name, add /webhooks/0/clientConfig/caBundle, " +
			"test /webhooks/1/name, add /webhooks/1/clientConfig/caBundle"},
	} {
		var steps []string
		for _, operation := range injection(c.before, []byte("CA")) {
			steps = append(steps, operation.Op+" "+operation.Path)
		}
		if got := strings.Join(steps, ", "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A Secret of the version that kept the key of the authority is used as it is, and loses the key when the replicas of that version are gone.
func TestKeeper_TakesTheAuthoritysKeyOutOfTheSecret(t *testing.T) {
	data, err := advance(t, nil, names, epoch).encode()
	if err != nil {
		t.Fatal(err)
	}
	data["ca.key"] = data["tls.key"]
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", Labels: map[string]string{labelManagedBy: managedBy}},
		Type:       corev1.SecretTypeTLS, Data: data,
	}
	clients := fake.NewClientset(secret)
	clock := clocktesting.NewFakeClock(epoch)
	k := NewKeeper(clients.CoreV1(), clients.AdmissionregistrationV1(), clock, Options{
		Namespace: "n", Secret: "s", Configuration: "drover", Names: names,
	})
	if err := k.secret.informer.GetStore().Add(secret); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   time.Duration
		kept bool
	}{{0, true}, {stripAfter - time.Second, true}, {stripAfter, false}} {
		clock.SetTime(epoch.Add(c.at))
		current, next, err := k.ensure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.kept && !next.Equal(epoch.Add(stripAfter)) {
			t.Errorf("after %s the next look is at %s", c.at, next)
		}
		stored, err := clients.CoreV1().Secrets("n").Get(t.Context(), "s", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := stored.Data["ca.key"]; kept != c.kept || !bytes.Equal(stored.Data["tls.crt"], data["tls.crt"]) ||
			!bytes.Equal(current.trusted(), data["ca.crt"]) {
			t.Errorf("after %s the key is kept: %t", c.at, kept)
		}
	}
}
