package cli

import (
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// poolPrefixes may stand before the name of a pool, as kubectl writes kind/name.
var poolPrefixes = []string{"pool/", "machineset/", "machinesets/", "machineset.machine.openshift.io/", "machinesets.machine.openshift.io/"}

func trimPrefixes(name string, prefixes []string) (string, bool) {
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest, true
		}
	}
	return name, false
}

// choose narrows a survey to the named pools; no names mean all, with the Machines that have no pool.
func choose(survey plan.Survey, names []string, where string) (plan.Survey, error) {
	if len(names) == 0 {
		return survey, nil
	}
	var known []string
	for _, pool := range survey.Declarations {
		known = append(known, pool.Key.Name)
	}
	chosen := map[string]bool{}
	for _, name := range names {
		name, _ = trimPrefixes(name, poolPrefixes)
		if !slices.Contains(known, name) {
			return plan.Survey{}, notFound("pool", name, where, known)
		}
		chosen[name] = true
	}
	narrowed := plan.Survey{Notes: survey.Notes}
	for _, pool := range survey.Declarations {
		if chosen[pool.Key.Name] {
			narrowed.Declarations = append(narrowed.Declarations, pool)
		}
	}
	for _, item := range survey.Items {
		if item.Declaration != nil && chosen[item.Declaration.Key.Name] {
			narrowed.Items = append(narrowed.Items, item)
		}
	}
	return narrowed, nil
}
