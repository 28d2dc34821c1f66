package vsphere

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// fields are the names of an object's fields, each with the names in its object or in the objects of its list; nil for other values.
type fields map[string]fields

// fieldsOfSpec are the fields of a VSphereMachineProviderSpec that Drover reads.
var fieldsOfSpec = fields{
	"template": nil, "snapshot": nil, "cloneMode": nil, "numCPUs": nil, "numCoresPerSocket": nil, "memoryMiB": nil, "diskGiB": nil, "tagIDs": nil,
	"userDataSecret": {"name": nil}, "credentialsSecret": {"name": nil},
	"workspace": {"server": nil, "datacenter": nil, "folder": nil, "datastore": nil, "resourcePool": nil, "vmGroup": nil},
	"network": {"devices": {
		"networkName": nil, "gateway": nil, "ipAddrs": nil, "nameservers": nil,
		"addressesFromPools": {"group": nil, "resource": nil, "name": nil},
	}},
	"dataDisks": {"name": nil, "sizeGiB": nil, "provisioningMode": nil},
}

// decode reads a providerSpec, or a part of it, without regard to the case of its fields, as machine-api-operator does
// (https://github.com/openshift/machine-api-operator/blob/951196122/pkg/webhooks/machine_webhook.go): OpenShift's own samples have
// workspace.resourcepool. Unknown fields do not count. Only the case of ASCII letters is ignored, as in the admission policies:
// encoding/json would take more names for a field than they see.
func decode(raw []byte, into any) error {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &value); err != nil {
		return err
	}
	text, err := json.Marshal(fieldsOfSpec.named(value))
	if err != nil {
		return fmt.Errorf("reading the fields: %w", err)
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// named returns a value with the canonical names of its fields. If two names differ only in their case, which the policies deny, the last in byte
// order counts.
func (f fields) named(value any) any {
	switch value := value.(type) {
	case []any:
		if f != nil {
			for i := range value {
				value[i] = f.named(value[i])
			}
		}
	case map[string]any:
		if f == nil {
			return value
		}
		named := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			for name, inner := range f {
				if lowerASCII(name) == lowerASCII(key) {
					named[name] = inner.named(value[key])
				}
			}
		}
		return named
	}
	return value
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}
