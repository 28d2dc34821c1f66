package maintenance

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// evictionWebhook is an admission webhook for evictions in the namespace of a site. It does not answer for pods whose names begin with hangs. If a
// pod's name begins with a number, the webhook denies the eviction with this number as the code.
type evictionWebhook struct {
	// hanging counts the requests without an answer, most is the largest number of them.
	hanging, most atomic.Int32
	// ended is when the first of them ended, in nanoseconds; zero while none has.
	ended    atomic.Int64
	released chan struct{}
}

func (h *evictionWebhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	code := 0
	switch name := review.Request.Name; {
	case strings.HasPrefix(name, "hangs"):
		now := h.hanging.Add(1)
		for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); {
			most = h.most.Load()
		}
		select {
		case <-h.released:
		case <-r.Context().Done():
		}
		h.ended.CompareAndSwap(0, time.Now().UnixNano())
		h.hanging.Add(-1)
		// The maintenance may be over by now.
		response.Allowed = false
	default:
		if _, err := fmt.Sscanf(name, "denied%d", &code); err == nil {
			response.Allowed, response.Result = false, &metav1.Status{Code: int32(code), Message: "pod " + name + " has to stay"}
		}
	}
	review.Response = response
	_ = json.NewEncoder(w).Encode(review)
}

// serve registers the webhook until the test ends.
func (h *evictionWebhook) serve(s *harness.Site) {
	s.Helper()
	server := httptest.NewTLSServer(h)
	s.Cleanup(func() {
		close(h.released)
		server.Close()
	})
	none, fail, timeout, url := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, int32(30), server.URL
	s.CreateWithCleanup(&admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "evictions.example.com", SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Name}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
			}},
		}},
	})
}

// TestWebhook_Denies: whatever code an admission webhook of the cluster denies an eviction with, the reason is the webhook, and it is named once.
func TestWebhook_Denies(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusNotFound} {
		s.Pod(fmt.Sprintf("denied%d", code), harness.Pods{Node: node})
	}
	(&evictionWebhook{released: make(chan struct{})}).serve(s)
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, plan.ReasonBlocked, `4 refused by a webhook (admission webhook "evictions.example.com" denied the request`)
	s.AwaitEvent("NodeMaintenance", m.Get().GetName(), "DrainBlocked", "evictions.example.com")
}

// TestWebhook_Hangs: if the admission webhook does not answer for pods of one node, the pods of another node are still evicted.
func TestWebhook_Hangs(t *testing.T) {
	s, others := site(t), watched(t)
	node, free := s.AddNode(), others.AddNode()
	s.Deployment("hangs", harness.Pods{Node: node, Replicas: 60})
	others.Deployment("free", harness.Pods{Node: free, Replicas: 10})
	webhook := &evictionWebhook{released: make(chan struct{})}
	webhook.serve(s)
	s.Maintain(node, nil)
	s.Eventually("evictions hang", func() error {
		if webhook.hanging.Load() < 32 {
			return fmt.Errorf("%d do", webhook.hanging.Load())
		}
		return nil
	})
	mark := s.AuditMark()
	others.Maintain(free, nil).Phase(medik8s.PhaseSucceeded)
	if _, err := s.Cluster.Audit().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := time.Time{}
	err := s.Cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		if e.Namespace == others.Name && e.Subresource == "eviction" && first.IsZero() {
			first = e.Answered
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// If the hanging evictions took all places, the others would wait until a hanging eviction ends.
	if ended := webhook.ended.Load(); first.IsZero() || ended != 0 && first.UnixNano() > ended {
		t.Errorf("the first eviction of the others was at %s, after one that hangs had ended at %s", first, time.Unix(0, ended))
	}
	if most := webhook.most.Load(); most > 32 {
		t.Errorf("%d evictions hung at the same time", most)
	}
}
