package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/config"
)

const (
	systemNamespace  = "drover-system"
	machineNamespace = "openshift-machine-api"
	leaseNamespace   = "medik8s-leases"
)

// source is a file of config/ that is part of the chart, and when.
type source struct {
	file string
	// when is the condition, in Helm's language; empty for always.
	when string
	// edit replaces more than what is replaced in all of them: pairs of old and new text.
	edit []string
}

// on is the condition that a capability is on.
func on(capability string) string { return fmt.Sprintf(`include "drover.on" (list . %q)`, capability) }

// and joins conditions.
func and(conditions ...string) string { return "and (" + strings.Join(conditions, ") (") + ")" }

// setting is a value of the operator's configuration.
func setting(section, name, value string) string {
	return fmt.Sprintf(`{{ include "drover.setting" (list . %q %q %s) | quote }}`, section, name, value)
}

// account replaces the name of Drover's service account with the release's.
func account() []string {
	return []string{"system:serviceaccount:" + systemNamespace + ":drover", "system:serviceaccount:{{ .Release.Namespace }}:drover"}
}

const (
	webhook     = `include "drover.webhook" .`
	managed     = `include "drover.managed" .`
	cloudConfig = `include "drover.vsphere.cloudConfig" .`
)

// cloudConfigRule is what config/vsphere/rbac.yaml grants for a configuration of the cloud provider in the namespace of Machines.
const cloudConfigRule = `# The configuration of the cloud provider, where machines.providerOptions.vsphere.cloudConfig says that it is here.
# On OpenShift it is elsewhere: openshift/rbac.yaml.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kube-cloud-config]
  verbs: [get]
`

// policies is the condition that admission policies are on.
const policies = ".Values.admissionPolicies.enabled"

func sources() []source { return append(sourcesOfCapabilities(), sourcesOfProviders()...) }

func sourcesOfCapabilities() []source {
	kinds := config.Default().Machines.Remediation.TemplateKinds
	return []source{
		{file: "rbac/role.yaml"},
		{file: "rbac/metrics_reader.yaml"},
		{file: "rbac/leader_election.yaml", edit: []string{
			"resourceNames: [drover]", "resourceNames: [" + setting("leaderElection", "name", `"drover"`) + "]",
			// The lease may be in a namespace of its own; the service account is not.
			"  name: drover-leader-election\n  namespace: " + systemNamespace,
			"  name: drover-leader-election\n  namespace: " + setting("leaderElection", "namespace", ".Release.Namespace"),
		}},
		{file: "rbac/admission.yaml", when: policies},
		{file: "metadata/rbac.yaml", when: on("metadata")},
		{file: "nodegroups/rbac.yaml", when: on("nodeGroups")},
		{file: "nodegroups/admission.yaml", when: and(on("nodeGroups"), policies), edit: account()},
		{file: "maintenance/rbac.yaml", when: on("maintenance")},
		{file: "maintenance/leases.yaml", when: on("maintenance")},
		{file: "maintenance/admission.yaml", when: and(on("maintenance"), policies)},
		{file: "maintenance/force/rbac.yaml", when: and(on("maintenance"),
			`not (has (include "drover.setting" (list . "maintenance" "force" "On")) (list "Off" "false"))`)},
		{file: "machines/rbac.yaml", when: on("machines"), edit: []string{
			remediationRules(kinds), fmt.Sprintf("{{- include \"drover.remediation.rules\" (list . (list %s)) }}\n", quoted(kinds)),
		}},
		{file: "machines/openshift.yaml", when: on("machines")},
		{file: "machines/admission.yaml", when: and(on("machines"), policies)},
		{file: "autoscaling/rbac.yaml", when: on("autoscaling")},
		{file: "autoscaling/admission.yaml", when: and(on("autoscaling"), policies)},
		{file: "upgrade/rbac.yaml", when: on("upgrade")},
		{file: "upgrade/leases.yaml", when: on("upgrade")},
		{file: "upgrade/admission.yaml", when: and(on("upgrade"), policies), edit: account()},
		{file: "webhook/role.yaml", when: webhook},
		{file: "webhook/certificates.yaml", when: managed, edit: []string{
			"resourceNames: [drover]", "resourceNames: [" + setting("webhook", "validatingConfigurationName", `"drover"`) + "]",
			"resourceNames: [drover-webhook]", "resourceNames: [" + setting("webhook", "secretName", `"drover-webhook"`) + "]",
		}},
		{file: "webhook/service.yaml", when: webhook, edit: []string{
			"  name: drover-webhook\n", "  name: " + setting("webhook", "serviceName", `"drover-webhook"`) + "\n",
		}},
		{file: "webhook/configuration.yaml", when: webhook, edit: []string{
			"  name: drover\n  labels:\n    app.kubernetes.io/name: drover\n",
			"  name: " + setting("webhook", "validatingConfigurationName", `"drover"`) +
				"\n  labels:\n    app.kubernetes.io/name: drover\n  {{- include \"drover.webhook.annotations\" . }}\n",
			"  clientConfig:\n", "  clientConfig:\n    {{- include \"drover.webhook.authority\" . }}\n",
			"      name: drover-webhook\n", "      name: " + setting("webhook", "serviceName", `"drover-webhook"`) + "\n",
		}},
	}
}

func sourcesOfProviders() []source {
	kubemark := and(on("machines"), ".Values.kubemark.enabled")
	kwok := and(on("machines"), ".Values.kwok.enabled")
	vsphere := and(on("machines"), ".Values.vsphere.enabled")
	return []source{
		{file: "kubemark/namespace.yaml", when: kubemark, edit: []string{
			// With the namespace go the Pods of all hollow nodes.
			"    pod-security.kubernetes.io/enforce: restricted\n",
			"    pod-security.kubernetes.io/enforce: restricted\n  annotations:\n    helm.sh/resource-policy: keep\n",
		}},
		{file: "kubemark/rbac.yaml", when: kubemark},
		{file: "kwok/rbac.yaml", when: kwok},
		{file: "vsphere/admission.yaml", when: and(vsphere, policies)},
		{file: "vsphere/openshift/admission.yaml", when: and(vsphere, policies,
			`.Capabilities.APIVersions.Has "machine.openshift.io/v1/ControlPlaneMachineSet"`)},
		{file: "vsphere/rbac.yaml", when: vsphere, edit: []string{
			// A rule without names is for all Secrets of the namespace.
			"resourceNames: [vsphere-cloud-credentials, worker-user-data]",
			`resourceNames: {{ if not .Values.vsphere.secrets }}{{ fail "vsphere.secrets: name the Secrets that Drover may read" }}{{ end }}` +
				`{{ toJson .Values.vsphere.secrets }}`,
			// The chart knows where the configuration is.
			cloudConfigRule, "",
		}},
		{file: "vsphere/openshift/rbac.yaml", when: and(vsphere, cloudConfig), edit: []string{
			"namespace: openshift-config-managed", `namespace: {{ ` + cloudConfig + ` | splitList "/" | first | quote }}`,
			"resourceNames: [kube-cloud-config]", `resourceNames: [{{ ` + cloudConfig + ` | splitList "/" | last | quote }}]`,
		}},
	}
}

// remediationRules returns the rules for kinds of remediation templates, as config/machines/rbac.yaml has them for the default. The chart has a
// helper in their place that writes them for the kinds in its values.
func remediationRules(kinds []string) string {
	var b strings.Builder
	for _, text := range kinds {
		kind := schema.ParseGroupKind(text)
		template := strings.ToLower(kind.Kind)
		fmt.Fprintf(&b, "- apiGroups: [%s]\n  resources: [%ss]\n  verbs: [get]\n", kind.Group, template)
		fmt.Fprintf(&b, "- apiGroups: [%s]\n  resources: [%ss]\n  verbs: [list, create, delete]\n", kind.Group, strings.TrimSuffix(template, "template"))
	}
	return b.String()
}

// quoted returns texts as the elements of a list in Helm's language.
func quoted(texts []string) string {
	return `"` + strings.Join(texts, `" "`) + `"`
}

// addTemplates makes a template of each file.
func addTemplates(files map[string][]byte) error {
	for _, s := range sources() {
		text, err := os.ReadFile(filepath.Join("config", filepath.FromSlash(s.file)))
		if err != nil {
			return err
		}
		template, err := s.template(string(text))
		if err != nil {
			return fmt.Errorf("config/%s: %w", s.file, err)
		}
		files["templates/generated/"+strings.ReplaceAll(s.file, "/", "_")] = []byte(template)
	}
	return nil
}

// template replaces names of namespaces, and puts the condition around it.
func (s source) template(text string) (string, error) {
	if strings.Contains(text, "{{") {
		return "", fmt.Errorf("it has {{ in it, which Helm takes for its own")
	}
	for i := 0; i < len(s.edit); i += 2 {
		if !strings.Contains(text, s.edit[i]) {
			return "", fmt.Errorf("it has no %q any more", s.edit[i])
		}
		text = strings.ReplaceAll(text, s.edit[i], s.edit[i+1])
	}
	documents := strings.Split(text, "\n---\n")
	for i, document := range documents {
		documents[i] = inNamespaces(strings.TrimSuffix(document, "\n") + "\n")
	}
	text = strings.Join(documents, "---\n")
	head := fmt.Sprintf("{{- /* Code generated by hack/chart from config/%s. DO NOT EDIT. */ -}}\n", s.file)
	if s.when == "" {
		return head + text, nil
	}
	return head + "{{- if " + s.when + " }}\n" + text + "{{- end }}\n", nil
}

// inNamespaces names the namespaces of the release. A role of the namespace of Machines is one of the cluster where that is all namespaces.
func inNamespaces(document string) string {
	if strings.Contains(document, "\n  namespace: "+machineNamespace+"\n") {
		const namespace = `include "drover.machines.namespace" .`
		name := nameOf(document)
		document = strings.NewReplacer(
			"kind: RoleBinding\n", "kind: {{ if not ("+namespace+") }}Cluster{{ end }}RoleBinding\n",
			"kind: Role\n", "kind: {{ if not ("+namespace+") }}Cluster{{ end }}Role\n",
			"  name: "+name+"\n", "  name: "+name+"{{ if not ("+namespace+") }}-everywhere{{ end }}\n",
			"  namespace: "+machineNamespace+"\n", "  {{- with "+namespace+" }}\n  namespace: {{ . | quote }}\n  {{- end }}\n",
		).Replace(document)
	}
	return strings.NewReplacer(
		"namespace: "+systemNamespace, "namespace: {{ .Release.Namespace | quote }}",
		"namespace: "+leaseNamespace, "namespace: {{ .Values.namespaces.leases.name | quote }}",
	).Replace(document)
}

// nameOf is the name in a document's metadata.
func nameOf(document string) string {
	_, metadata, _ := strings.Cut(document, "metadata:\n  name: ")
	name, _, _ := strings.Cut(metadata, "\n")
	return name
}
