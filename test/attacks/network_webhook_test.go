package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// review is what the API server would send for a new NodeMaintenance.
func review(t *testing.T, user, node string) string {
	t.Helper()
	object, err := json.Marshal(map[string]any{"spec": map[string]any{"nodeName": node}})
	if err != nil {
		t.Fatal(err)
	}
	request := &admissionv1.AdmissionRequest{UID: "x", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object}}
	request.UserInfo.Username = user
	text, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNetwork_WebhookFlood: every client that reaches the webhook can call it, as it does not authenticate clients.
func TestNetwork_WebhookFlood(t *testing.T) {
	w := harness.NewWorld(t, env)
	operator := newExposed(t, w)
	attacker := clientFrom(t, "127.0.0.2")
	path := "https://" + operator.webhook + "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance"
	big := strings.Repeat("x", 1<<20)
	attack(t, stranger, "has texts of 1 MiB logged", func(t *testing.T) string {
		before := len(operator.Log())
		for what, body := range map[string]string{
			"the node": review(t, "", big), "the user": review(t, big, "x"), "a time": `{"kind":"` + big + `","apiVersion":"` + big + `"}`,
		} {
			if _, _, err := ask(t.Context(), attacker, http.MethodPost, path, "", strings.NewReader(body)); err != nil {
				t.Error(what, err)
			}
		}
		if grown := len(operator.Log()) - before; grown > 128<<10 {
			t.Errorf("the log has %d bytes more", grown)
		}
		return "entries of the log are cut"
	})
	master := builder.Node("webhook-flood", builder.WithNodeLabels(map[string]string{nodestate.LabelControlPlane: ""}))
	w.CreateWithCleanup(master)
	for what, name := range map[string]func(int) string{
		"about nodes that there are not":    func(i int) string { return fmt.Sprintf("none-%d", i) },
		"about a node of the control plane": func(int) string { return master.Name },
		"about nodes that cannot exist":     func(i int) string { return fmt.Sprintf("NONE_%d", i) },
	} {
		attack(t, stranger, "has the API server asked "+what, func(t *testing.T) string {
			return floodReviews(t, w, func(i int) error {
				_, _, err := ask(t.Context(), attacker, http.MethodPost, path, "", strings.NewReader(review(t, "", name(i))))
				return err
			})
		})
	}
}

// floodReviews sends many reviews, and counts what Drover asks the API server for them.
func floodReviews(t *testing.T, w *harness.World, send func(int) error) string {
	t.Helper()
	const writers, each = 8, 20
	mark, begun := w.AuditMark(), time.Now()
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for i := range each {
				if err := send(writer*each + i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	took := time.Since(begun)
	if _, err := env.Audit().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What it asks while it starts about the API server itself names no resource.
	counts, err := env.Audit().Counts(mark, func(e *cluster.AuditEvent) bool {
		return e.User == harness.User && e.Verb != "watch" && e.Resource != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	// Ten checks a second, of three requests each, 20 at the start, and the other requests of Drover.
	asked, most := counts.Total(nil), 80+int(took.Seconds()*35)
	if asked > most {
		t.Errorf("Drover has made %d requests in %s, at most %d are expected:\n%v", asked, took, most, counts)
	}
	return fmt.Sprintf("a bound on what is asked: %d requests for %d reviews in %s", asked, writers*each, took.Round(time.Millisecond))
}
