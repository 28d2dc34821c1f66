package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-io/drover/internal/admission/certs"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// secret reads the Secret of the certificate.
func (w *webhookWorld) secret() (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, w.Client.Get(w.Context(), types.NamespacedName{Namespace: harness.SystemNamespace, Name: certificateName}, secret)
}

// trusting waits until the webhooks trust what the Secret says, and returns that.
func (w *webhookWorld) trusting(different ...[]byte) []byte {
	w.Helper()
	var trusted []byte
	w.Eventually("the authority", func() error {
		secret, err := w.secret()
		if err != nil {
			return err
		}
		if trusted, err = w.trusts(); err != nil {
			return err
		}
		if !bytes.Equal(trusted, secret.Data["ca.crt"]) {
			return fmt.Errorf("the Secret has another one")
		}
		for _, other := range different {
			if bytes.Equal(trusted, other) {
				return fmt.Errorf("it is the old one")
			}
		}
		return nil
	})
	return trusted
}

// certificateWrites lists what the operator has written for the webhook's sake since a mark.
func (w *webhookWorld) certificateWrites(since cluster.AuditMark) []cluster.AuditEvent {
	w.Helper()
	if _, err := w.Cluster.Audit().Sync(w.Context()); err != nil {
		w.Fatal(err)
	}
	all, err := w.Cluster.Audit().Since(since)
	if err != nil {
		w.Fatal(err)
	}
	var writes []cluster.AuditEvent
	for _, event := range all {
		if event.User == harness.User && event.Write() && (event.Resource == "secrets" || event.Resource == "validatingwebhookconfigurations") {
			writes = append(writes, event)
		}
	}
	return writes
}

func TestCertificates_NoWebhookConfiguration(t *testing.T) {
	w := newWebhookWorld(t)
	mark := w.AuditMark()
	address := w.address()
	// The older way to begin a watch asks for a list first.
	operator := w.serve(address, harness.Options{Env: []string{"KUBE_FEATURE_WatchListClient=false"}})
	w.Eventually("a line in the log", func() error {
		if !strings.Contains(operator.Log(), "so the API server does not call the webhook") {
			return fmt.Errorf("the log is\n%s", operator.Log())
		}
		return nil
	})
	if writes := w.certificateWrites(mark); len(writes) > 0 {
		t.Errorf("it wrote %+v", writes)
	}
	// It begins when the configuration comes, and is at rest then.
	configuration := w.configure(address)
	trusted := w.trusting()
	w.asked()
	mark = w.AuditMark()
	// A change by another writer makes the operator look again.
	annotate(w.World, configuration, "test.drover.dev/look", "x")
	w.Eventually("a second look", func() error { return w.unchanged(configuration) })
	if again := w.trusting(); !bytes.Equal(again, trusted) {
		t.Error("the authority is another one")
	}
	if writes := w.certificateWrites(mark); len(writes) > 0 {
		t.Errorf("at rest it wrote %+v", writes)
	}
	if n := strings.Count(operator.Log(), "so the API server does not call the webhook"); n != 1 {
		t.Errorf("it logged %d times that the webhook is not called", n)
	}
	for _, part := range []string{"PRIVATE KEY", "BEGIN CERTIFICATE"} {
		if strings.Contains(operator.Log(), part) {
			t.Errorf("the log has %q in it", part)
		}
	}
}

// unchanged reports whether a configuration is at the version that was written last by the test.
func (w *webhookWorld) unchanged(configuration *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	now := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.Client.Get(w.Context(), types.NamespacedName{Name: configuration.Name}, now); err != nil {
		return err
	}
	if now.ResourceVersion != configuration.ResourceVersion {
		return fmt.Errorf("it is at %s, and was at %s", now.ResourceVersion, configuration.ResourceVersion)
	}
	return nil
}

func TestCertificates_CABundleRestored(t *testing.T) {
	w := guarded(t, harness.Options{})
	trusted := w.trusting()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName}}
	for _, damage := range []string{`[{"op":"remove","path":"/webhooks/1/clientConfig/caBundle"}]`,
		`[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":9},{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`} {
		if err := w.Client.Patch(t.Context(), configuration, jsonPatch(damage)); err != nil {
			t.Fatal(err)
		}
		if again := w.trusting(); !bytes.Equal(again, trusted) {
			t.Error("the authority is another one")
		}
	}
	if *configuration.Webhooks[0].TimeoutSeconds != 9 {
		t.Error("what else was changed has been undone")
	}
	w.asked()
}

func TestCertificates_SecretRestored(t *testing.T) {
	w := guarded(t, harness.Options{})
	trusted := w.trusting()
	first, err := w.secret()
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(secret *corev1.Secret) error{
		"deleted": func(secret *corev1.Secret) error { return w.Client.Delete(t.Context(), secret) },
		"damaged": func(secret *corev1.Secret) error {
			return w.Client.Patch(t.Context(), secret, mergePatch(`{"data":{"tls.key":"eA=="}}`))
		},
	} {
		secret, err := w.secret()
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(secret); err != nil {
			t.Fatal(name, err)
		}
		w.Eventually("the Secret that was "+name+" is as it was", func() error {
			now, err := w.secret()
			if err != nil {
				return err
			}
			for key, value := range first.Data {
				if !bytes.Equal(now.Data[key], value) {
					return fmt.Errorf("%s is another one", key)
				}
			}
			return nil
		})
	}
	if again := w.trusting(); !bytes.Equal(again, trusted) {
		t.Error("the authority is another one")
	}
	w.asked()
}

func TestCertificates_ForeignSecret(t *testing.T) {
	w := newWebhookWorld(t)
	w.CreateWithCleanup(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: certificateName}, Data: map[string][]byte{"password": []byte("hush")},
	})
	address := w.address()
	w.configure(address)
	mark := w.AuditMark()
	operator := harness.Start(t, env, harness.Options{Args: []string{"--webhook-bind-address=" + address}})
	w.Eventually("an error in the log", func() error {
		if !strings.Contains(operator.Log(), "belongs to another program, and Drover does not change it") {
			return fmt.Errorf("the log is\n%s", operator.Log())
		}
		return nil
	})
	if err := operator.Says(t.Context(), "[-]webhook failed: the webhook has no certificate yet"); err != nil {
		t.Error(err)
	}
	if writes := w.certificateWrites(mark); len(writes) > 0 {
		t.Errorf("it wrote %+v", writes)
	}
	if strings.Contains(operator.Log(), "hush") {
		t.Error("the log contains the secret")
	}
}

func TestCertificates_TwoReplicas(t *testing.T) {
	w := newWebhookWorld(t)
	first, second := w.address(), w.address()
	operators := []*harness.Operator{w.serve(first, harness.Options{}), w.serve(second, harness.Options{Elect: true})}
	mark := w.AuditMark()
	// Both begin at the same moment, when the configuration appears.
	w.configure(first)
	trusted := w.trusting()
	for _, operator := range operators {
		if err := operator.Says(t.Context(), "[+]webhook ok"); err != nil {
			t.Fatal(err)
		}
	}
	serials := map[string]bool{}
	for _, address := range []string{first, second} {
		w.Eventually("a certificate at "+address, func() error {
			shown, err := certificateAt(t.Context(), address)
			if err != nil {
				return err
			}
			serials[shown.SerialNumber.String()] = true
			return verify(shown, trusted)
		})
	}
	if len(serials) != 1 {
		t.Errorf("they show %d certificates", len(serials))
	}
	created := 0
	for _, write := range w.certificateWrites(mark) {
		if write.Resource == "secrets" && write.Code == 201 {
			created++
		} else if write.Resource == "secrets" && write.Verb != "create" {
			t.Errorf("one undid the other's: %+v", write)
		}
	}
	if created != 1 {
		t.Errorf("%d Secrets were made", created)
	}
}

// What a process has begun, the next one ends; what is in order, it leaves alone.
func TestCertificates_Restart(t *testing.T) {
	w := newWebhookWorld(t)
	address := w.address()
	configuration := w.configure(address)
	operator := w.serve(address, harness.Options{})
	trusted := w.trusting()
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	mark := w.AuditMark()
	operator = w.serve(address, harness.Options{})
	w.asked()
	if writes := w.certificateWrites(mark); len(writes) > 0 {
		t.Errorf("a restart wrote %+v", writes)
	}
	// The authority never got where it belongs.
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Patch(t.Context(), configuration, jsonPatch(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)); err != nil {
		t.Fatal(err)
	}
	w.serve(address, harness.Options{})
	if again := w.trusting(); !bytes.Equal(again, trusted) {
		t.Error("the authority is another one")
	}
	w.asked()
}

// keeper is a Keeper in this process, as the administrator, with a clock of its own.
func (w *webhookWorld) keeper(clock *clocktesting.FakeClock, names ...string) *certs.Keeper {
	w.Helper()
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		w.Fatal(err)
	}
	keeper := certs.NewKeeper(clients, clock, certs.Options{
		Namespace: harness.SystemNamespace, Secret: certificateName, Configuration: configurationName, Names: names,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- keeper.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
	return keeper
}

func TestCertificates_Rotation(t *testing.T) {
	w := newWebhookWorld(t)
	w.configure(w.address())
	clock := clocktesting.NewFakeClock(time.Now())
	keepers := []*certs.Keeper{w.keeper(clock, "a.svc"), w.keeper(clock, "a.svc")}
	first := w.trusting()
	shown := w.shown(keepers, nil, first, clock.Now())

	// A third of the certificate's life is left: another authority is made known beside the first one, and nothing else is shown yet.
	w.forward(clock, 250*24*time.Hour)
	both := w.trusting(first)
	if !bytes.HasSuffix(both, first) {
		t.Error("the old authority is not trusted any more")
	}
	if same := w.shown(keepers, nil, first, clock.Now()); !same.Equal(shown) {
		t.Error("a certificate is shown before its authority is known")
	}

	// An hour later the certificate is the new authority's. The old one stays as long as it lives.
	w.forward(clock, time.Hour+time.Minute)
	second := w.shown(keepers, shown, both[:len(both)-len(first)], clock.Now())
	if now := w.trusting(); !bytes.Equal(now, both) {
		t.Error("the old authority is gone before its time")
	}

	// After years without the operator everything has expired: what it creates is used at once.
	w.forward(clock, 7*365*24*time.Hour)
	last := w.trusting(both)
	if bytes.Contains(last, first) {
		t.Error("the old authority is trusted beyond its life")
	}
	w.shown(keepers, second, last, clock.Now())
	if secret, err := w.secret(); err != nil || len(secret.Data) != 3 {
		t.Errorf("the Secret has %d entries, %v; want ca.crt, tls.crt and tls.key, and no key of an authority", len(secret.Data), err)
	}
}

// forward lets time pass, once both keepers wait for it.
func (w *webhookWorld) forward(clock *clocktesting.FakeClock, by time.Duration) {
	w.Helper()
	w.Eventually("the keepers wait", func() error {
		if !clock.HasWaiters() {
			return fmt.Errorf("no keeper waits")
		}
		return nil
	})
	clock.Step(by)
}

// shown waits until all keepers show the same certificate, another one than before, that is good for those who trust an authority.
func (w *webhookWorld) shown(keepers []*certs.Keeper, before *x509.Certificate, trusted []byte, now time.Time) *x509.Certificate {
	w.Helper()
	var same *x509.Certificate
	w.Eventually("a new certificate", func() error {
		same = nil
		for _, keeper := range keepers {
			certificate, err := keeper.GetCertificate(nil)
			if err != nil {
				return err
			}
			if before != nil && certificate.Leaf.Equal(before) {
				return fmt.Errorf("it is the old one still")
			}
			if same != nil && !same.Equal(certificate.Leaf) {
				return fmt.Errorf("there are two")
			}
			same = certificate.Leaf
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted)
		_, err := same.Verify(x509.VerifyOptions{Roots: roots, DNSName: "a.svc", CurrentTime: now})
		return err
	})
	return same
}
