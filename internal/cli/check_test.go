package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// installed is a cluster in which Drover works, and what its API server has beside objects.
type installed struct {
	deployment *appsv1.Deployment
	lease      *coordinationv1.Lease
	policy     *admissionv1.ValidatingAdmissionPolicy
	binding    *admissionv1.ValidatingAdmissionPolicyBinding
	webhook    *admissionv1.ValidatingWebhookConfiguration
	paths      map[string]string
	forbidden  string
}

func newInstalled() *installed {
	ours := map[string]string{"app.kubernetes.io/name": "drover"}
	in := metav1.ObjectMeta{Namespace: "drover-system", Name: "drover", Labels: ours}
	global := metav1.ObjectMeta{Name: "drover", Labels: ours}
	i := &installed{
		deployment: &appsv1.Deployment{ObjectMeta: in, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}},
		lease: &coordinationv1.Lease{ObjectMeta: in, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("drover-1_uid"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: testTime.Add(-time.Second)},
		}},
		policy:  &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: global},
		binding: &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: global},
		webhook: &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: global, Webhooks: []admissionv1.ValidatingWebhook{{Name: "vnm"}}},
		paths: map[string]string{
			"/version": `{"major":"1","minor":"34","gitVersion":"v1.34.1"}`,
			"/apis":    `{"groups":[{"name":"drover.dev"}]}`,
			"/api/v1/namespaces/drover-system/pods/drover-1:8081/proxy/readyz?verbose": "[+]caches ok\ndrover: devel\ncapability node-groups: running\n" +
				"capability metadata: off (the API server has no machines)\n",
		},
	}
	i.binding.Spec.PolicyName = i.policy.Name
	i.deployment.Spec.Replicas = new(int32(2))
	i.deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "drover", Image: "example.com/drover:v1"}}
	i.webhook.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{}, CABundle: []byte("x")}
	return i
}

func (i *installed) run(t *testing.T, args ...string) outcome {
	t.Helper()
	on := cluster(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			if review, ok := object.(*authorizationv1.SelfSubjectAccessReview); ok {
				review.Status.Allowed = review.Spec.ResourceAttributes.Resource != i.forbidden
			}
			return nil
		},
	}, i.deployment, i.lease, i.policy, i.binding, i.webhook)
	get := func(_ context.Context, path string) ([]byte, error) {
		if body, found := i.paths[path]; found {
			return []byte(body), nil
		}
		return nil, errors.New("the server could not find " + path)
	}
	return runGet(t, func() (client.WithWatch, error) { return on, nil }, get, "", args...)
}

// TestCheck: what keeps Drover from working is a failure, and says so; what the user may not do or see is a warning.
func TestCheck(t *testing.T) {
	golden(t, "check.txt", newInstalled().run(t, "check").out)
	const report = "/api/v1/namespaces/drover-system/pods/drover-1:8081/proxy/readyz?verbose"
	for name, c := range map[string]struct {
		change func(i *installed)
		code   int
		says   string
	}{
		"works":            {func(*installed) {}, exitOK, "v1.34.1"},
		"none ready":       {func(i *installed) { i.deployment.Status.ReadyReplicas = 0 }, exitError, "0 of 2 replicas ready"},
		"one ready":        {func(i *installed) { i.deployment.Status.ReadyReplicas = 1 }, exitOK, "1 of 2 replicas ready"},
		"elsewhere":        {func(i *installed) { i.deployment.Namespace = "other" }, exitError, "--drover-namespace"},
		"no leader":        {func(i *installed) { i.lease.Spec.HolderIdentity = nil }, exitError, "no replica leads"},
		"leader gone":      {func(i *installed) { i.lease.Spec.RenewTime.Time = testTime.Add(-time.Hour) }, exitError, "drover-1 ended 59m ago"},
		"forged leader":    {func(i *installed) { i.lease.Spec.HolderIdentity = new("../../secrets_x") }, exitError, "which is no Pod"},
		"no report":        {func(i *installed) { delete(i.paths, report) }, exitOK, "which capabilities run is unknown"},
		"not ready":        {func(i *installed) { i.paths[report] = "[-]caches failed: x\ncapability a: off\n" }, exitError, "[-]caches failed: x"},
		"another version":  {func(i *installed) { i.paths[report] = "drover: v9\n" }, exitOK, "version v9; the plugin is devel"},
		"old server":       {func(i *installed) { i.paths["/version"] = `{"major":"1","minor":"30+","gitVersion":"v1.30.0"}` }, exitError, "needs 1.31"},
		"no policies":      {func(i *installed) { i.policy.Labels = nil }, exitError, "no ValidatingAdmissionPolicy"},
		"no binding":       {func(i *installed) { i.binding.Spec.PolicyName = "x" }, exitError, "without effect: drover"},
		"no webhook":       {func(i *installed) { i.webhook.Labels = nil }, exitOK, "none is installed"},
		"no certificate":   {func(i *installed) { i.webhook.Webhooks[0].ClientConfig.CABundle = nil }, exitError, "no caBundle"},
		"rights":           {func(i *installed) { i.forbidden = "nodegroups" }, exitOK, "you may not patch nodegroups.drover.dev"},
		"not served":       {func(i *installed) { i.forbidden = "machinesets" }, exitOK, "you may do all"},
		"no answer at all": {func(i *installed) { delete(i.paths, "/version") }, exitError, "reading /version"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstalled()
			c.change(i)
			i.run(t, "check").says(t, c.code, c.says)
		})
	}
}

func TestVersion_OfTheOperator(t *testing.T) {
	i := newInstalled()
	i.run(t, "version").says(t, exitOK, "operator devel")
	i.lease.Spec.HolderIdentity = nil
	i.run(t, "version").says(t, exitOK, "operator example.com/drover:v1")
	if got := i.run(t, "version", "--client"); strings.Contains(got.out+got.errors, "operator") {
		t.Errorf("%+v", got)
	}
}
