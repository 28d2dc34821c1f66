package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-io/drover/config/crd"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// CRDs come and go; the webhook of one group answers without the other.
func TestAbsence_OneGroupOnly(t *testing.T) {
	w := newWebhookWorld(t)
	address := w.address()
	w.configure(address)
	operator := w.serve(address, harness.Options{})
	w.asked()
	w.node("lonely", corev1.ConditionTrue)
	const name = "nodemaintenances.nodemaintenance.kubevirt.io"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if _, err := cluster.InstallCRDs(ctx, env.Admin(), crd.Files, "nodemaintenance"); err != nil {
			t.Error(err)
		}
	})
	if output, err := harness.Kubectl(t.Context(), env, nil, "delete", "crd", name); err != nil {
		t.Fatal(err, output)
	}
	if err := operator.Says(t.Context(), "capability maintenance-kubevirt: off"); err != nil {
		t.Fatal(err)
	}
	if err := w.create(medik8sOf("lonely", "lonely")); err != nil {
		t.Fatal(err)
	}
	// The webhook answers from the cache, which shows the first one by then.
	w.inMaintenance("lonely")
	w.denied(w.create(medik8sOf("second", "lonely")), claimedText("lonely"))
	if _, err := cluster.InstallCRDs(t.Context(), env.Admin(), crd.Files, "nodemaintenance"); err != nil {
		t.Fatal(err)
	}
	if err := operator.Says(t.Context(), "capability maintenance-kubevirt: running"); err != nil {
		t.Fatal(err)
	}
	w.denied(w.create(kubevirtOf("second", "lonely")), claimedText("lonely"))
}

// A group that is switched off has no cache. It is asked for all the same, so that a node is not taken twice.
func TestAbsence_DisabledGroupCounts(t *testing.T) {
	w := newWebhookWorld(t)
	w.node("shared", corev1.ConditionTrue)
	if err := w.create(kubevirtOf("shared", "shared")); err != nil {
		t.Fatal(err)
	}
	address := w.address()
	w.configure(address)
	operator := w.serve(address, harness.Options{Args: []string{"--controllers=maintenance"}})
	w.asked()
	w.denied(w.create(medik8sOf("shared", "shared")), claimedText("shared"))
	if err := operator.Stop(); err != nil {
		t.Error(err)
	}
	// Without either there is no webhook at all, and no address is taken.
	for _, args := range []string{"--controllers=metadata", "--webhook-bind-address=0"} {
		operator := w.serve(address, harness.Options{Args: []string{args}})
		if _, err := certificateAt(t.Context(), address); err == nil {
			t.Errorf("%s: the webhook answers", args)
		}
		if err := operator.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// Another program creates the certificate and writes the CA bundle.
func TestAbsence_ExternalCertificate(t *testing.T) {
	w := newWebhookWorld(t)
	address := w.address()
	configuration := w.configure(address)
	w.keeper(clocktesting.NewFakeClock(time.Now()), "127.0.0.1")
	trusted := w.trusting()
	secret, err := w.secret()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key"} {
		olm := strings.Replace(name, "tls.", "apiserver.", 1)
		if err := os.WriteFile(filepath.Join(folder, olm), secret.Data[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mark := w.AuditMark()
	w.serve(address, harness.Options{Args: []string{"--webhook-certificates=Files", "--webhook-cert-dir=" + folder}})
	w.asked()
	shown, err := certificateAt(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data["tls.crt"])
	want, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !shown.Equal(want) {
		t.Errorf("it shows another certificate (%v)", err)
	}
	if writes := w.certificateWrites(mark); len(writes) > 0 {
		t.Errorf("it wrote %+v", writes)
	}
	if now, err := w.trusts(); err != nil || string(now) != string(trusted) {
		t.Errorf("the API server trusts another CA (%v)", err)
	}
	if err := w.Client.Get(t.Context(), types.NamespacedName{Name: configuration.Name}, configuration); err != nil {
		t.Error(err)
	}
	wrong, err := harness.Launch(t.Context(), env, t.TempDir(), harness.Options{
		Args: []string{"--webhook-bind-address=" + w.address(), "--webhook-certificates=Files", "--webhook-cert-dir=" + t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-wrong.Ended()
	if err := wrong.Stop(); err == nil || !strings.Contains(wrong.Log(), "neither tls.crt nor apiserver.crt") {
		t.Errorf("without a certificate it ended with %v:\n%s", err, wrong.Log())
	}
}
