package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// newWritingServer returns a server that may write, and counts the writes that are no dry runs.
func newWritingServer(t *testing.T, objects ...client.Object) (s *server, writes *int) {
	t.Helper()
	writes = new(int)
	count := func(dryRun []string) {
		if len(dryRun) == 0 {
			*writes++
		}
	}
	s = newTestServer(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			var of client.CreateOptions
			count(of.ApplyOptions(options).DryRun)
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			var of client.PatchOptions
			of.ApplyOptions(options)
			count(of.DryRun)
			return c.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			var of client.DeleteOptions
			count(of.ApplyOptions(options).DryRun)
			return c.Delete(ctx, object, options...)
		},
	}, objects...)
	s.cluster.write = true
	writing := newServer(s.cluster, testHost, testToken)
	return writing, writes
}

// post sends a body as the page does.
func post(s *server, path, mediaType, body string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://"+testHost+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Content-Type", mediaType)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, r)
	return answer
}

// act posts an action and returns the result.
func act(t *testing.T, s *server, path string, action *Action) ActionResult {
	t.Helper()
	body, err := json.Marshal(action)
	if err != nil {
		t.Fatal(err)
	}
	answer := post(s, path, "application/json", string(body), nil)
	var result ActionResult
	if err := json.Unmarshal(answer.Body.Bytes(), &result); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", answer.Code, err, answer.Body)
	}
	return result
}

// TestAction_Maintenance: a maintenance of several nodes begins and ends, after a dry run that writes nothing. A node that cannot be taken does not
// stop the others.
func TestAction_Maintenance(t *testing.T) {
	ready := builder.WithReady(corev1.ConditionTrue)
	s, writes := newWritingServer(t, builder.Node("a", ready), builder.Node("b", ready))
	start := &Action{Action: StartMaintenance, Targets: []string{"a", "none", "b"}, Reason: "it's a disk", Deadline: "30m", Force: true}
	dry := act(t, s, "/api/actions?dryRun=true", start)
	if *writes != 0 || !dry.DryRun || len(dry.Output) != 2 || len(dry.Errors) != 1 || !strings.Contains(dry.Errors[0], `"none"`) {
		t.Errorf("dry run: %d writes, %+v", *writes, dry)
	}
	const command = `kubectl drover maintenance start a none b '--reason=it'\''s a disk' --deadline=30m0s --force`
	if dry.Command != command {
		t.Errorf("the command is %s", dry.Command)
	}
	started := act(t, s, "/api/actions", start)
	if *writes != 2 || started.DryRun || len(started.Output) != 2 || started.Output[0] != "nodemaintenance.nodemaintenance.medik8s.io/a created" {
		t.Errorf("%d writes, %+v", *writes, started)
	}
	m := &medik8s.NodeMaintenance{}
	if err := s.cluster.client.Get(t.Context(), client.ObjectKey{Name: "b"}, m); err != nil || m.Spec.Reason != start.Reason || !m.Spec.Drain.Force {
		t.Errorf("%v: %+v", err, m.Spec)
	}
	ended := act(t, s, "/api/actions", &Action{Action: EndMaintenance, Targets: []string{"a", "b"}})
	if *writes != 4 || len(ended.Output) != 2 || len(ended.Errors) != 0 {
		t.Errorf("%d writes, %+v", *writes, ended)
	}
}

// TestAction_Pause: pause and resume write what the commands write.
func TestAction_Pause(t *testing.T) {
	s, writes := newWritingServer(t, builder.NodeGroup("web"), builder.MachineSet("machines", "workers", 1), builder.Node("n"))
	targets := []string{"machineset/workers", "node/n"}
	if dry := act(t, s, "/api/actions?dryRun=true", &Action{Action: Pause, Targets: targets, Namespace: "machines", Reason: "a move"}); *writes != 0 ||
		len(dry.Errors) != 0 || dry.Command != "kubectl drover pause machineset/workers node/n '--reason=a move' --namespace=machines" {
		t.Errorf("dry run: %d writes, %+v", *writes, dry)
	}
	if paused := act(t, s, "/api/actions", &Action{Action: Pause, Targets: []string{"nodegroup/web"}}); *writes != 1 || len(paused.Errors) != 0 {
		t.Errorf("%d writes, %+v", *writes, paused)
	}
	group := &drover.NodeGroup{}
	if err := s.cluster.client.Get(t.Context(), client.ObjectKey{Name: "web"}, group); err != nil || !group.Spec.Suspend {
		t.Errorf("%v: %+v", err, group.Spec)
	}
	act(t, s, "/api/actions", &Action{Action: Resume, Targets: []string{"nodegroup/web"}})
	if err := s.cluster.client.Get(t.Context(), client.ObjectKey{Name: "web"}, group); err != nil || group.Spec.Suspend {
		t.Errorf("%v: %+v", err, group.Spec)
	}
}

// TestAction_WhoMayWrite: nothing is written without --write, for another page, without the token, or with arguments that are no targets.
func TestAction_WhoMayWrite(t *testing.T) {
	ready := builder.WithReady(corev1.ConditionTrue)
	s, writes := newWritingServer(t, builder.Node("a", ready))
	reading := newTestServer(t, interceptor.Funcs{}, builder.Node("a", ready))
	const valid = `{"action":"startMaintenance","targets":["a"]}`
	many := `{"action":"startMaintenance","targets":[` + strings.Repeat(`"a",`, maxTargets) + `"a"]}`
	for name, c := range map[string]struct {
		server     *server
		path, body string
		mediaType  string
		header     map[string]string
		status     int
	}{
		"without --write":       {server: reading, body: valid, status: http.StatusForbidden},
		"another page":          {body: valid, header: map[string]string{"Origin": "http://evil.example"}, status: http.StatusForbidden},
		"a page on the host":    {body: valid, header: map[string]string{"Origin": "http://127.0.0.1:9"}, status: http.StatusForbidden},
		"cross-site":            {body: valid, header: map[string]string{"Sec-Fetch-Site": "cross-site"}, status: http.StatusForbidden},
		"no token":              {body: valid, header: map[string]string{"Authorization": ""}, status: http.StatusUnauthorized},
		"another token":         {body: valid, header: map[string]string{"Authorization": "Bearer x"}, status: http.StatusUnauthorized},
		"a form":                {body: valid, mediaType: "application/x-www-form-urlencoded", status: http.StatusUnsupportedMediaType},
		"text":                  {body: valid, mediaType: "text/plain", status: http.StatusUnsupportedMediaType},
		"too long":              {body: strings.Repeat(" ", maxActionBytes) + valid, status: http.StatusRequestEntityTooLarge},
		"no JSON":               {body: "action=pause", status: http.StatusBadRequest},
		"an unknown field":      {body: `{"action":"pause","targets":["node/a"],"args":["--all"]}`, status: http.StatusBadRequest},
		"no such action":        {body: `{"action":"delete","targets":["a"]}`, status: http.StatusBadRequest},
		"no targets":            {body: `{"action":"endMaintenance","targets":[]}`, status: http.StatusBadRequest},
		"too many targets":      {body: many, status: http.StatusBadRequest},
		"a flag":                {body: `{"action":"startMaintenance","targets":["--selector=a"]}`, status: http.StatusBadRequest},
		"a flag as a name":      {body: `{"action":"pause","targets":["node/--all"]}`, status: http.StatusBadRequest},
		"another kind":          {body: `{"action":"pause","targets":["pod/a"]}`, status: http.StatusBadRequest},
		"another namespace":     {body: `{"action":"pause","targets":["node/a"],"namespace":"--a"}`, status: http.StatusBadRequest},
		"a deadline of nothing": {body: `{"action":"startMaintenance","targets":["a"],"deadline":"soon"}`, status: http.StatusBadRequest},
		"the end of a paste":    {body: `{"action":"pause","targets":["node/a"],"reason":"\u001b[201~reboot"}`, status: http.StatusBadRequest},
		"a second line":         {body: `{"action":"pause","targets":["node/a"],"reason":"a\nreboot"}`, status: http.StatusBadRequest},
		"a hidden character":    {body: `{"action":"pause","targets":["node/a"],"reason":"\u202e"}`, status: http.StatusBadRequest},
		"a dry run, misspelled": {path: "/api/actions?dryRun=server", body: valid, status: http.StatusBadRequest},
		"a dry run of no value": {path: "/api/actions?dryRun", body: valid, status: http.StatusBadRequest},
		"a dry run of kubectl":  {path: "/api/actions?dry-run=server", body: valid, status: http.StatusBadRequest},
		"another case":          {path: "/api/actions?dryrun=true", body: valid, status: http.StatusBadRequest},
		"no query":              {path: "/api/actions?dryRun=true;", body: valid, status: http.StatusBadRequest},
		"another path":          {path: "/api/nodes/a", body: valid, status: http.StatusMethodNotAllowed},
		"a file":                {path: "/index.html", body: valid, status: http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			server, path, mediaType := c.server, c.path, c.mediaType
			if server == nil {
				server = s
			}
			if path == "" {
				path = "/api/actions"
			}
			if mediaType == "" {
				mediaType = "application/json"
			}
			if answer := post(server, path, mediaType, c.body, c.header); answer.Code != c.status || *writes != 0 {
				t.Errorf("status %d, want %d, %d writes: %s", answer.Code, c.status, *writes, answer.Body)
			}
		})
	}
	if answer := post(s, "/api/actions", "application/json", valid, nil); answer.Code != http.StatusOK || *writes != 1 {
		t.Errorf("a valid action: status %d, %d writes: %s", answer.Code, *writes, answer.Body)
	}
}

// TestCommands_Many: the number of commands that run at once is bounded.
func TestCommands_Many(t *testing.T) {
	s, _ := newWritingServer(t)
	for range maxCommands {
		s.commands <- struct{}{}
	}
	answer := post(s, "/api/actions", "application/json", `{"action":"endMaintenance","targets":["a"]}`, nil)
	if answer.Code != http.StatusTooManyRequests {
		t.Errorf("status %d", answer.Code)
	}
}

// TestPlan: a manifest is planned as the command line does, and nothing is written.
func TestPlan(t *testing.T) {
	pool := builder.WithNodeLabels(map[string]string{"pool": "web"})
	ready := builder.WithReady(corev1.ConditionTrue)
	s, writes := newWritingServer(t, builder.Node("a", ready, pool), builder.Node("b", ready))
	const manifest = `
apiVersion: drover.dev/v1alpha1
kind: NodeGroup
metadata: {name: web}
spec:
  nodes: {selector: {matchLabels: {pool: web}}}
  metadata: {labels: {tier: gold}}
`
	answer := post(s, "/api/plan", "application/yaml", manifest, nil)
	var preview PlanPreview
	if err := json.Unmarshal(answer.Body.Bytes(), &preview); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", answer.Code, err, answer.Body)
	}
	var list view.NodeGroupPlanList
	if err := json.Unmarshal(preview.Plan, &list); err != nil || list.Kind != "NodeGroupPlanList" || len(list.Items) != 1 {
		t.Fatalf("%v: %s", err, preview.Plan)
	}
	if *writes != 0 || !preview.Changes || preview.Command != "kubectl drover plan -f FILE" || len(preview.Warnings) != 0 {
		t.Errorf("%d writes, %+v", *writes, preview)
	}
	if group := list.Items[0]; group.Name != "web" || fmt.Sprint(group.Joining) != "[a]" || *group.Changes[0].Changes[0].To != "gold" {
		t.Errorf("got %+v", group)
	}
	var known drover.NodeGroup
	if err := s.cluster.client.Get(t.Context(), client.ObjectKey{Name: "web"}, &known); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the group was created: %v", err)
	}
}

// TestPlan_Refused: what cannot be planned is said as the command line says it.
func TestPlan_Refused(t *testing.T) {
	s, writes := newWritingServer(t)
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"no YAML":            {"{", http.StatusUnprocessableEntity, "standard input"},
		"nothing":            {"", http.StatusUnprocessableEntity, "no MachineSet"},
		"nothing of Drover":  {"{apiVersion: v1, kind: Pod, metadata: {name: a}}", http.StatusUnprocessableEntity, "no MachineSet"},
		"another version":    {"{apiVersion: drover.dev/v2, kind: NodeGroup, metadata: {name: a}}", http.StatusUnprocessableEntity, "drover.dev/v2"},
		"a file of the disk": {"/etc/passwd", http.StatusUnprocessableEntity, ""},
		"more than can be":   {strings.Repeat("#", maxManifestBytes+1), http.StatusRequestEntityTooLarge, "bytes"},
		"a hostile field": {
			`{apiVersion: drover.dev/v1alpha1, kind: NodeGroup, metadata: {name: a}, spec: "\u001b[31m"}`, http.StatusUnprocessableEntity, "spec",
		},
		"aliases upon aliases": {bomb(), http.StatusUnprocessableEntity, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := post(s, "/api/plan", "application/yaml", c.body, nil)
			if answer.Code != c.status || !strings.Contains(strings.ToLower(answer.Body.String()), strings.ToLower(c.want)) || *writes != 0 {
				t.Errorf("status %d, %d writes: %s", answer.Code, *writes, answer.Body)
			}
			if bytes.ContainsAny(answer.Body.Bytes(), "\x1b") || answer.Body.Len() > 2*maxErrorText {
				t.Errorf("the text is neither escaped nor bounded: %d bytes", answer.Body.Len())
			}
		})
	}
}

// TestPlan_ManyWarnings: a manifest with thousands of objects of other kinds has a bounded number of warnings.
func TestPlan_ManyWarnings(t *testing.T) {
	s, _ := newWritingServer(t)
	manifest := "{apiVersion: drover.dev/v1alpha1, kind: NodeGroup, metadata: {name: a}, spec: {nodes: {selector: {}}}}\n" +
		strings.Repeat("---\n{apiVersion: v1, kind: A}\n", maxLines+500)
	answer := post(s, "/api/plan", "application/yaml", manifest, nil)
	var preview PlanPreview
	if err := json.Unmarshal(answer.Body.Bytes(), &preview); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %.200s", answer.Code, err, answer.Body)
	}
	if len(preview.Warnings) != maxLines+1 || !strings.HasSuffix(preview.Warnings[maxLines], " more lines are left out") {
		t.Errorf("%d warnings, the last is %q", len(preview.Warnings), preview.Warnings[len(preview.Warnings)-1])
	}
}

// bomb returns a small text whose aliases are a billion values.
func bomb() string {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i < 'k'; i++ {
		text += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 9), ","))
	}
	return text
}

// TestFlags: the commands that the page shows have the flags that choose the cluster, and no secrets.
func TestFlags(t *testing.T) {
	o := cmdutil.NewOptions(genericiooptions.NewTestIOStreamsDiscard())
	command := NewCommand(o)
	o.AddFlags(command.PersistentFlags())
	if err := command.ParseFlags([]string{
		"--context=prod", "--token=secret", "--client-key=k.pem", "--insecure-skip-tls-verify", "--as-group=a", "--as-group=b", "--protect-label=x/*",
		"-n", "ns", "--write", "--port=1",
	}); err != nil {
		t.Fatal(err)
	}
	f := flagsOf(command, o)
	got := f.commandText(append([]string{"plan"}, f.protect...), f.namespace)
	want := "kubectl drover plan '--protect-label=x/*' --as-group=a --as-group=b --client-key=k.pem --context=prod --insecure-skip-tls-verify=true " +
		"--token=TOKEN --namespace=ns"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFlags_Context: the commands that the page shows name the context of the page, which may be another one later.
func TestFlags_Context(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	const text = `{"apiVersion": "v1", "kind": "Config", "current-context": "prod eu", "contexts": [{"name": "prod eu", "context": {}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"":                "kubectl drover resume node/a --kubeconfig=" + kubeconfig + " '--context=prod eu'",
		"--context=stage": "kubectl drover resume node/a --context=stage --kubeconfig=" + kubeconfig,
	} {
		o := cmdutil.NewOptions(genericiooptions.NewTestIOStreamsDiscard())
		command := NewCommand(o)
		o.AddFlags(command.PersistentFlags())
		args := []string{"--kubeconfig=" + kubeconfig}
		if given != "" {
			args = append(args, given)
		}
		if err := command.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		f := flagsOf(command, o)
		if got := f.commandText([]string{"resume", "node/a"}, ""); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
