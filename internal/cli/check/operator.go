package check

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/version"
)

// ours selects what the manifests of Drover install.
var ours = client.MatchingLabels{"app.kubernetes.io/name": "drover"}

// probesPort is the port of the probes, as the manifests have it.
const probesPort = 8081

// operator checks the Deployment, the leader, and what that reports of itself.
func (s *survey) operator(ctx context.Context) {
	all, err := cmdutil.List[*appsv1.Deployment](ctx, s.client, s.DroverNamespace, ours)
	switch {
	case err != nil:
		s.add("operator", view.CheckWarning, "whether it is up is unknown: %v", err)
	case len(all) == 0:
		s.add("operator", view.CheckFailed, "there is no Deployment of Drover in namespace %s; --drover-namespace names another one", s.DroverNamespace)
		return
	}
	image := ""
	for _, deployment := range all {
		image = imageOf(deployment)
		wanted, ready, state := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status.ReadyReplicas, view.CheckOK
		if ready == 0 {
			state = view.CheckFailed
		} else if ready < wanted {
			state = view.CheckWarning
		}
		s.add("operator", state, "Deployment %s/%s has %d of %d replicas ready, image %s", s.DroverNamespace, deployment.Name, ready, wanted, image)
	}
	pod := s.leader(ctx)
	if pod == "" {
		return
	}
	lines, err := reportOf(ctx, s.Options, pod)
	if err != nil {
		s.add("capability", view.CheckWarning,
			"which capabilities run is unknown: reading /readyz of Pod %s, for which you need get on pods/proxy: %v", pod, err)
		return
	}
	for _, line := range lines {
		s.report(line)
	}
}

// leader checks the lease, and returns the Pod of its holder; empty where none leads.
func (s *survey) leader(ctx context.Context) string {
	pod, none, err := s.Leader(ctx, s.client)
	switch {
	case err != nil:
		s.add("leader", view.CheckWarning, "which replica leads is unknown: %v", err)
	case none != "":
		s.add("leader", view.CheckFailed, "%s", none)
	default:
		s.add("leader", view.CheckOK, "%s", pod)
	}
	return pod
}

// report adds a line of what the operator reports.
func (s *survey) report(line string) {
	check, state := "operator", view.CheckOK
	switch rest, isCapability := strings.CutPrefix(line, "capability "); {
	case isCapability:
		check, line = "capability", rest
	case strings.HasPrefix(line, "[-]"):
		state = view.CheckFailed
	case strings.HasPrefix(line, "[+]"):
		return
	}
	if running, found := strings.CutPrefix(line, versionLine); found {
		line = "version " + running
		if running != version.Version() {
			state = view.CheckWarning
			line += fmt.Sprintf("; the plugin is %s, and may decide otherwise", version.Version())
		}
	}
	if strings.Contains(line, "warning:") || strings.Contains(line, "trying again") {
		state = view.CheckWarning
	}
	s.add(check, state, "%s", line)
}

// versionLine is how the line begins in which the operator reports its version.
const versionLine = "drover: "

// reportOf returns what a replica reports of itself.
func reportOf(ctx context.Context, o *cmdutil.Options, pod string) ([]string, error) {
	body, err := o.Get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/readyz?verbose", o.DroverNamespace, pod, probesPort))
	// A replica that is not ready answers with an error, and says why.
	if err != nil && !strings.Contains(string(body), "capability ") {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(body)), "\n"), nil
}

// imageOf returns the image of the operator.
func imageOf(deployment *appsv1.Deployment) string {
	for i := range deployment.Spec.Template.Spec.Containers {
		return deployment.Spec.Template.Spec.Containers[i].Image
	}
	return ""
}

// OperatorVersion returns the version of the operator that leads or, where it cannot be asked, its image.
func OperatorVersion(ctx context.Context, o *cmdutil.Options) (string, error) {
	c, err := o.Connect()
	if err != nil {
		return "", err
	}
	if pod, _, err := o.Leader(ctx, c); err == nil && pod != "" {
		lines, _ := reportOf(ctx, o, pod)
		for _, line := range lines {
			if running, found := strings.CutPrefix(line, versionLine); found {
				return running, nil
			}
		}
	}
	all, err := cmdutil.List[*appsv1.Deployment](ctx, c, o.DroverNamespace, ours)
	if err != nil {
		return "", err
	}
	for _, deployment := range all {
		return imageOf(deployment), nil
	}
	return "", fmt.Errorf("there is no Deployment of Drover in namespace %s", o.DroverNamespace)
}
