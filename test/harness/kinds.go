package harness

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/test/cluster"
)

// kindManifest is the CRD of another operator's kind. Drover knows only its metadata and spec.template.
const kindManifest = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.%[3]s}
spec:
  group: %[3]s
  scope: %[4]s
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]ss, singular: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// InstallRemediation installs the kind of a remediation template, written Kind.group, and the kind of its requests, in version v1. scope is
// Namespaced or Cluster. It returns when both kinds are served.
func InstallRemediation(ctx context.Context, c *cluster.Cluster, template, scope string) error {
	kind := schema.ParseGroupKind(template)
	for _, name := range []string{kind.Kind, strings.TrimSuffix(kind.Kind, "Template")} {
		singular := strings.ToLower(name)
		manifest := fmt.Sprintf(kindManifest, name, singular, kind.Group, scope)
		if output, err := Kubectl(ctx, c, strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
			return fmt.Errorf("installing %s: %w\n%s", name, err, output)
		}
		crd := "crd/" + singular + "s." + kind.Group
		if output, err := Kubectl(ctx, c, nil, "wait", "--for=condition=Established", "--timeout=60s", crd); err != nil {
			return fmt.Errorf("waiting for %s: %w\n%s", crd, err, output)
		}
	}
	return nil
}
