package operator

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// Whatever verbosity is asked for, no body is logged: it could be a Secret, or the token of a reader of /metrics.
func TestNewLogger_LogsNoBody(t *testing.T) {
	const answer, token, review = "c2VjcmV0LWtleXM=", "own-token", "prometheus-token"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kind := `{"kind":"Secret","apiVersion":"v1","data":{"tls.key":"` + answer + `"}}`
		if r.Method == http.MethodPost {
			kind = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","spec":{"token":"` + review + `"}}`
		}
		_, _ = w.Write([]byte(kind))
	}))
	defer server.Close()
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: token, ContentConfig: rest.ContentConfig{
		ContentType: "application/json",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx := klog.NewContext(t.Context(), NewLogger(v1alpha1.Log{Format: "json", Verbosity: new(100)}, &out))
	if _, err := clients.CoreV1().Secrets("n").Get(ctx, "s", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: review}}
	if _, err := clients.AuthenticationV1().TokenReviews().Create(ctx, asked, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{answer, token, review} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the log has %q in it:\n%s", secret, out.String())
		}
	}
}

func TestNewLogger_CutsLongEntries(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		logger := NewLogger(v1alpha1.Log{Format: format, Verbosity: new(0)}, &out)
		logger.Info("short")
		logger.Error(errors.New(strings.Repeat("\x00long", 1<<20)), "long")
		logger.Info("short again")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || len(lines[1]) > maxEntry || !strings.Contains(lines[1], "too long") || !strings.Contains(lines[2], "short again") {
			t.Errorf("%s: %d lines of %d bytes", format, len(lines), out.Len())
		}
	}
}

func TestNewLogger_Fields(t *testing.T) {
	var out bytes.Buffer
	logger := NewLogger(v1alpha1.Log{Format: "json", Verbosity: new(0)}, &out).WithValues("controller", "metadata")
	one, another := logger.WithValues("node", "n1"), logger.WithValues("node", "n2")
	one.V(1).Info("not written")
	another.Info("written", "seconds", 2)
	one.Info("written")
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{`"msg":"written","controller":"metadata","node":"n2","seconds":2}`, `"msg":"written","controller":"metadata","node":"n1"}`}
	if len(got) != len(want) || !strings.HasSuffix(got[0], want[0]) || !strings.HasSuffix(got[1], want[1]) {
		t.Errorf("the log is\n%s", out.String())
	}
}
