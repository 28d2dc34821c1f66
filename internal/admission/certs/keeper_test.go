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

func TestKeeper_WithoutPermissionIsReady(t *testing.T) {
	clients := fake.NewClientset()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "drover", nil)
	clients.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	clients.PrependWatchReactor("*", clienttesting.DefaultWatchReactor(nil, forbidden))
	k := NewKeeper(clients, clocktesting.NewFakeClock(epoch), Options{
		Namespace: "n", Secret: "s", Configuration: "drover", Names: names,
	})
	if err := k.Ready(t.Context()); err == nil {
		t.Error("it is ready before it has read the configuration")
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
		t.Errorf("it serves %v", certificate)
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

func TestKeeper_InjectsWhatClientsHaveToTrust(t *testing.T) {
	b := advance(t, nil, names, epoch)
	trusted := caBundle(t, b)
	for name, c := range map[string]struct {
		before  [][]byte
		patches int
	}{
		"no webhook":       {nil, 0},
		"all are in order": {[][]byte{trusted, trusted}, 0},
		"one lacks it":     {[][]byte{trusted, nil}, 1},
		"all have another": {[][]byte{[]byte("x"), []byte("y")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "drover", ResourceVersion: "7"}}
			for i, text := range c.before {
				webhook := admissionregistrationv1.ValidatingWebhook{Name: string(rune('a' + i)), TimeoutSeconds: new(int32(9))}
				webhook.ClientConfig.CABundle = text
				configuration.Webhooks = append(configuration.Webhooks, webhook)
			}
			clients := fake.NewClientset(configuration)
			k := NewKeeper(clients, clocktesting.NewFakeClock(epoch), Options{Configuration: "drover"})
			for range 2 { // The second time, the event of the first patch has not arrived.
				if err := k.inject(t.Context(), configuration, b); err != nil {
					t.Fatal(err)
				}
			}
			patches := 0
			for _, action := range clients.Actions() {
				patch, ok := action.(clienttesting.PatchAction)
				if !ok || !strings.Contains(string(patch.GetPatch()), `"resourceVersion":"7"`) || strings.Contains(string(patch.GetPatch()), "timeout") {
					t.Errorf("%v", action)
				}
				patches++
			}
			if patches != c.patches {
				t.Errorf("%d patches, want %d", patches, c.patches)
			}
			after, err := clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "drover", metav1.GetOptions{})
			if err != nil || len(after.Webhooks) != len(c.before) {
				t.Fatalf("%d webhooks, %v", len(after.Webhooks), err)
			}
			for _, webhook := range after.Webhooks {
				if !bytes.Equal(webhook.ClientConfig.CABundle, trusted) || *webhook.TimeoutSeconds != 9 {
					t.Errorf("webhook %s is %+v", webhook.Name, webhook)
				}
			}
		})
	}
}

// A Secret of the version that kept the key of the authority stays in use, and loses the key when the replicas of that version are gone.
func TestKeeper_RemovesTheKeyOfTheAuthority(t *testing.T) {
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
	k := NewKeeper(clients, clock, Options{
		Namespace: "n", Secret: "s", Configuration: "drover", Names: names,
	})
	if err := k.secret.GetStore().Add(secret); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   time.Duration
		kept bool
	}{{0, true}, {keepAuthorityKey - time.Second, true}, {keepAuthorityKey, false}} {
		clock.SetTime(epoch.Add(c.at))
		current, next, err := k.ensure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.kept && !next.Equal(epoch.Add(keepAuthorityKey)) {
			t.Errorf("after %s the next check is at %s", c.at, next)
		}
		stored, err := clients.CoreV1().Secrets("n").Get(t.Context(), "s", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := stored.Data["ca.key"]; kept != c.kept || !bytes.Equal(stored.Data["tls.crt"], data["tls.crt"]) ||
			!bytes.Equal(caBundle(t, current), data["ca.crt"]) {
			t.Errorf("after %s the key is kept: %t", c.at, kept)
		}
	}
}

// A Secret with a certificate of another program, as cert-manager writes it, is neither served nor changed.
func TestKeeper_ForeignCertificate(t *testing.T) {
	data, err := advance(t, nil, names, epoch).encode()
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Type: corev1.SecretTypeTLS, Data: data}
	clients := fake.NewClientset(secret)
	k := NewKeeper(clients, clocktesting.NewFakeClock(epoch), Options{Namespace: "n", Secret: "s", Configuration: "drover", Names: names})
	if err := k.secret.GetStore().Add(secret); err != nil {
		t.Fatal(err)
	}
	current, _, err := k.ensure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "belongs to another program") || current != nil {
		t.Errorf("bundle %v, error %v", current, err)
	}
	if len(clients.Actions()) != 0 {
		t.Errorf("requests %v", clients.Actions())
	}
}
