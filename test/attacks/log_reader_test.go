package attacks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const logReader = "reader of Drover's logs and events"

// TestLogReader has an operator with the most verbose log that it accepts do what it does with secrets: it makes a certificate for its webhook, asks
// who scrapes its metrics, and works with its own token.
func TestLogReader(t *testing.T) {
	w := harness.NewWorld(t, env)
	attack(t, logReader, "has an administrator turn on a level that logs whole requests", func(t *testing.T) string {
		operator := harness.Start(&failing{TB: t}, env, harness.Options{Args: []string{"-v=8"}})
		select {
		case <-operator.Ended():
		case <-time.After(harness.Patience):
			t.Error(errors.Join(errors.New("Drover starts with it"), operator.Kill()))
		}
		if !strings.Contains(operator.Log(), "log.verbosity: Invalid value: 8") {
			t.Errorf("the log is %s", operator.Log())
		}
		return "Drover does not start with it"
	})
	operator, own := verboseOperator(t, w)
	prometheus, err := harness.MetricsToken(t.Context(), env, w.Client)
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the metrics are read", func() error {
		_, err := operator.Scrape(t.Context(), prometheus)
		return err
	})
	const unknown = "an-unknown-token"
	if _, err := operator.Scrape(t.Context(), unknown); err == nil {
		t.Error("an unknown token reads the metrics")
	}
	secret := &corev1.Secret{}
	w.Eventually("the certificate of the webhook", func() error {
		err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: harness.SystemNamespace, Name: "drover-webhook"}, secret)
		if err == nil && len(secret.Data[corev1.TLSPrivateKeyKey]) == 0 {
			err = errors.New("the Secret is empty")
		}
		return err
	})
	t.Cleanup(func() {
		if err := w.Client.Delete(context.WithoutCancel(t.Context()), secret); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	w.Mark("logs")
	key := secret.Data[corev1.TLSPrivateKeyKey]
	inner := strings.Split(strings.TrimSpace(string(key)), "\n")[1]
	var events corev1.EventList
	if err := w.Client.List(t.Context(), &events); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{"log": operator.Log()}
	for _, event := range events.Items {
		seen["events"] += event.Message + "\n"
	}
	if len(seen["log"]) < 10_000 || seen["events"] == "" {
		t.Fatalf("nothing is tried: the log has %d bytes, the events %d", len(seen["log"]), len(seen["events"]))
	}
	for what, text := range map[string]string{
		"Drover's token": own, "the token of Prometheus": prometheus, "the token of a user who may not read metrics": unknown,
		"the key of the webhook": inner, "the key of the webhook in a Secret": base64.StdEncoding.EncodeToString(key)[:64], "a private key": "PRIVATE KEY",
	} {
		attack(t, logReader, "finds "+what, func(t *testing.T) string {
			for where, all := range seen {
				if strings.Contains(all, text) {
					t.Errorf("the %s has it", where)
				}
			}
			return fmt.Sprintf("no body or token is logged: %d bytes of log, %d of events", len(seen["log"]), len(seen["events"]))
		})
	}
}

// failing is a test whose operator is meant to fail.
type failing struct{ testing.TB }

// Cleanup stops nothing: the operator has ended.
func (*failing) Cleanup(func()) {}

// verboseOperator runs an operator as its service account, whose token it returns, with a webhook whose certificate it makes.
func verboseOperator(t *testing.T, w *harness.World) (operator *harness.Operator, token string) {
	t.Helper()
	w.Pool(cluster.PoolOptions{Name: "logs", Machines: 2})
	config, err := env.AsServiceAccount(t.Context(), harness.SystemNamespace, harness.ServiceAccount)
	if err != nil {
		t.Fatal(err)
	}
	address, err := harness.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + address + "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance"
	none, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "drover"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "vnodemaintenance.medik8s.io",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			SideEffects:  &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"nodemaintenance.medik8s.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"nodemaintenances"},
				},
			}},
		}},
	}
	w.CreateWithCleanup(configuration)
	operator = w.Operator(harness.Options{Config: config, Elect: true, Args: []string{
		"-v=7", "--webhook-bind-address=" + address, "--webhook-extra-names=" + host,
	}})
	w.Eventually("the webhook is asked", func() error {
		err := w.Client.Create(t.Context(), builder.NodeMaintenance("logs", "no-such-node"), client.DryRunAll)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	return operator, config.BearerToken
}
