package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

// injected is the name of what the hostile texts try to add.
const injected = "injected"

// hostile are texts that are more than a text where a template does not quote them.
var hostile = []string{
	"true", "0x10", "null", "~", "a: b", "{" + injected + ": b}", "[a]", "a\n" + injected + ": b", "a\n  " + injected + ": b",
	"a\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: " + injected + "\n#",
	"{{ fail \"evaluated\" }}", "\"", "'", "a # b", "*a", "&a b", "!!binary a", "a\\\" b", "a]\n" + injected + ": [b", "a\r\n" + injected + ": b",
}

// leaf is a value of the chart that takes a text.
type leaf struct {
	path []string
	// key says that the text is a key of a map, with below as its value.
	key   bool
	below any
	// pattern is what it has to match; empty for any text.
	pattern string
}

// String implements fmt.Stringer.
func (l leaf) String() string {
	if l.key {
		return strings.Join(append(slices.Clone(l.path), "KEY"), ".")
	}
	return strings.Join(l.path, ".")
}

// value returns values with a text at the leaf.
func (l leaf) value(text string) any {
	var value any = text
	if l.key {
		value = map[string]any{text: l.below}
	}
	for _, part := range slices.Backward(l.path) {
		if part == "[]" {
			value = []any{value}
		} else {
			value = map[string]any{part: value}
		}
	}
	return value
}

// leaves are all values of a schema that take texts of the user's: strings without an enum, and keys and values of maps.
func leaves(schema map[string]any, path ...string) (found []leaf) {
	here := slices.Clone(path)
	pattern, _ := schema["pattern"].(string)
	kind := fmt.Sprint(schema["type"])
	switch {
	case schema["enum"] != nil:
	case strings.Contains(kind, "string"):
		return []leaf{{path: here, pattern: pattern}}
	case kind == "array":
		items, _ := schema["items"].(map[string]any)
		return leaves(items, append(here, "[]")...)
	case kind == "object":
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			below, _ := properties[name].(map[string]any)
			found = append(found, leaves(below, append(here, name)...)...)
		}
		switch more := schema["additionalProperties"].(type) {
		case map[string]any:
			var below any = "a"
			if more["type"] == "object" {
				below = map[string]any{}
			}
			found = append(append(found, leaf{path: here, key: true, below: below}), leaves(more, append(here, "a")...)...)
		case nil: // Kubernetes' own types, whose fields are the API server's to check
			found = append(found, leaf{path: here, key: true, below: "a"}, leaf{path: append(here, "a")})
		}
	}
	return found
}

// variants are the values that the tests render every template with.
var variants = map[string]string{
	"cert-manager": `
capabilities: {machines: true, upgrade: true}
hostNetwork: true
metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboards: {enabled: true}, certificates: cert-manager}
kubemark: {enabled: true, image: example.com/kubemark}
kwok: {enabled: true}
webhook: {certificates: cert-manager}`,
	"managed": "capabilities: {machines: true, upgrade: true}",
	"secret": `
capabilities: {machines: true}
webhook: {certificates: secret, secretName: webhook, caBundle: authority}
metrics: {serviceMonitor: {enabled: true}, certificates: secret, secretName: metrics}`,
}

// rendering renders the chart with values, as documents in their order; an error if the chart refuses the values.
func rendering(t *testing.T, h *helm.Helm, variant string, values any) ([]any, error) {
	t.Helper()
	files := make([]string, 0, 2)
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	for i, content := range []string{variant, string(text)} {
		files = append(files, filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i)))
		if err := os.WriteFile(files[i], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output, err := h.Try("template", "drover", h.Chart, "--namespace", harness.SystemNamespace, "-f", files[0], "-f", files[1])
	if err != nil {
		return nil, err
	}
	var documents []any
	for _, document := range strings.Split("\n"+output, "\n---\n") {
		var object any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Errorf("it renders what is no YAML: %v\n%s", err, document)
		}
		if object != nil {
			documents = append(documents, object)
		}
	}
	return documents, nil
}

// harm looks for what a text has become other than a text: something named like what it tries to add, and types that a text did not have.
func harm(documents, benign []any) (found []string) {
	if len(documents) != len(benign) {
		found = append(found, fmt.Sprintf("%d objects instead of %d", len(documents), len(benign)))
	}
	for i := range min(len(documents), len(benign)) {
		kinds(documents[i], benign[i], "", &found)
	}
	return found
}

// kinds compares the types of two trees. A key that only one has is the text, where that is a key.
func kinds(got, want any, path string, found *[]string) {
	if a, b := fmt.Sprintf("%T", got), fmt.Sprintf("%T", want); a != b {
		*found = append(*found, fmt.Sprintf("%s is a %s instead of a %s", path, a, b))
		return
	}
	switch value := got.(type) {
	case map[string]any:
		other, _ := want.(map[string]any)
		if len(value) != len(other) {
			*found = append(*found, fmt.Sprintf("%s has %v instead of %v", path, slices.Sorted(maps.Keys(value)), slices.Sorted(maps.Keys(other))))
		}
		for key, below := range value {
			if key == injected {
				*found = append(*found, path+"."+key+" was added")
			}
			if same, ok := other[key]; ok {
				kinds(below, same, path+"."+key, found)
			}
		}
	case []any:
		other, _ := want.([]any)
		if len(value) != len(other) {
			*found = append(*found, fmt.Sprintf("%s has %d items instead of %d", path, len(value), len(other)))
			return
		}
		for i := range value {
			kinds(value[i], other[i], path+"[]", found)
		}
	}
}

// accepts reports whether the schema takes a text.
func (l leaf) accepts(text string) bool {
	return l.pattern == "" || regexp.MustCompile(l.pattern).MatchString(text)
}

// plain is a text that the schema takes.
func (l leaf) plain(t *testing.T) string {
	t.Helper()
	if l.key {
		return "benign"
	}
	for _, text := range []string{"a", "5m", "sha256:" + strings.Repeat("a", 64), ":8443", "50%"} {
		if l.accepts(text) {
			return text
		}
	}
	t.Fatalf("%s: no text is known that matches %s", l, l.pattern)
	return ""
}

// merge puts values together.
func merge(into, from any) any {
	switch value := from.(type) {
	case map[string]any:
		if all, ok := into.(map[string]any); ok {
			for key, below := range value {
				all[key] = merge(all[key], below)
			}
			return all
		}
	case []any:
		if all, ok := into.([]any); ok {
			return []any{merge(all[0], value[0])}
		}
	}
	return from
}

// judged are values that the chart validates itself, each with the only variant that accepts any text for it: the chart refuses unknown controllers,
// and a certificate folder in addition to its own.
var judged = map[string]string{"config.controllers.[]": "none", "config.metrics.certDir": "managed"}

// TestValues_AreTexts tries all values that take a text with texts that are YAML, or a template: the schema refuses them, or they stay texts.
func TestValues_AreTexts(t *testing.T) {
	h := helm.New(t, nil)
	text, err := os.ReadFile(filepath.Join(h.Chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	all := leaves(schema)
	if len(all) < 80 {
		t.Fatalf("only %d values take a text: %v", len(all), all)
	}
	for name, variant := range variants {
		for _, text := range hostile {
			t.Run(fmt.Sprintf("%s %q", name, text), func(t *testing.T) {
				t.Parallel()
				var good, bad any
				for _, l := range all {
					if only := judged[l.String()]; l.accepts(text) && (only == "" || only == name) {
						good, bad = merge(good, l.value(l.plain(t))), merge(bad, l.value(text))
					}
				}
				benign, err := rendering(t, h, variant, good)
				if err != nil {
					t.Fatal(err)
				}
				documents, err := rendering(t, h, variant, bad)
				if err != nil {
					t.Fatal(err)
				}
				for _, found := range harm(documents, benign) {
					t.Error(found)
				}
			})
		}
	}
}

// TestValues_NamesAreNames: what is a name in Kubernetes is refused when it cannot be one, with its path.
func TestValues_NamesAreNames(t *testing.T) {
	h := helm.New(t, nil)
	for path, benign := range map[string]string{
		"image.repository": "registry.example.com:5000/a/drover", "image.tag": "v1.2.3", "priorityClassName": "high", "namespaces.leases.name": "leases",
		"webhook.secretName": "own", "metrics.secretName": "own", "metrics.dashboards.namespace": "grafana", "metrics.serviceMonitor.interval": "1m",
		"config.namespace": "pools", "config.leaderElection.name": "one", "config.leaderElection.namespace": "elections",
		"config.webhook.serviceName": "own", "config.webhook.secretName": "own", "config.webhook.validatingConfigurationName": "own",
		"config.webhook.bindAddress": ":9443", "config.metrics.bindAddress": "[::1]:8443", "webhook.certManager.duration": "2160h",
	} {
		h.Run("template", "drover", h.Chart, "--set-string", path+"="+benign)
		for _, text := range []string{"a\n" + injected + ": b", "a: b", "{a}", "a b", "a#b ", "\"a\"", "{{ .Release.Name }}"} {
			file := filepath.Join(t.TempDir(), "values.yaml")
			values, err := yaml.Marshal(leaf{path: strings.Split(path, ".")}.value(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, values, 0o600); err != nil {
				t.Fatal(err)
			}
			h.Refused("'/"+strings.ReplaceAll(path, ".", "/")+"'", "template", "drover", h.Chart, "-f", file)
		}
	}
}
