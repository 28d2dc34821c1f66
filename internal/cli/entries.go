package cli

import (
	"strconv"
	"strings"
	"unicode"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

func nodeEntries(node *corev1.Node) plan.Entries {
	return plan.Entries{
		ownership.Label:      node.Labels,
		ownership.Annotation: node.Annotations,
		ownership.Taint:      ownership.TaintEntries(node.Spec.Taints),
	}
}

func machineEntries(machine *machinev1beta1.Machine) plan.Entries {
	return plan.Entries{
		ownership.Label:      machine.Spec.Labels,
		ownership.Annotation: machine.Spec.Annotations,
		ownership.Taint:      ownership.TaintEntries(machine.Spec.Taints),
	}
}

// longestValue is how much of a value is shown unless everything is asked for; annotations may hold whole documents.
const longestValue = 60

// showValue makes a value readable on one line. Empty values, and such with blanks or control characters, are quoted.
func showValue(value string, wide bool) string {
	if shortened := []rune(value); !wide && len(shortened) > longestValue {
		value = string(shortened[:longestValue-1]) + "…"
	}
	odd := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if value == "" || strings.HasPrefix(value, `"`) || strings.ContainsFunc(value, odd) {
		return strconv.Quote(value)
	}
	return value
}

// showEntry writes an entry as kubectl does: key=value, key=value:Effect for a taint.
func showEntry(kind ownership.Kind, key, value string, wide bool) string {
	if kind != ownership.Taint {
		return key + "=" + showValue(value, wide)
	}
	name, effect := ownership.SplitTaintID(key)
	if value == "" {
		return name + ":" + string(effect)
	}
	return name + "=" + showValue(value, wide) + ":" + string(effect)
}
