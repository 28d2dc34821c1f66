package cmdutil

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var machineSets = machinev1beta1.Resource("machinesets")

func TestIsNotServed_MissingObject(t *testing.T) {
	object := apierrors.NewNotFound(machineSets, "workers")
	if IsNotServed(object) || IsNotServed(fmt.Errorf("boom")) {
		t.Error("a missing object is not a missing resource")
	}
}

func TestSimilarNames(t *testing.T) {
	known := []string{"workers", "workers-east", "infra", "database"}
	for name, want := range map[string][]string{
		"worker":  {"workers", "workers-east"},
		"infar":   {"infra"},
		"east":    {"workers-east"},
		"unheard": nil,
		"":        nil,
	} {
		if got := similarNames(name, known); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestExplain_Expired(t *testing.T) {
	err := Explain(apierrors.NewResourceExpired("the provided continue parameter is too old"), "listing nodes", machineSets)
	if !apierrors.IsResourceExpired(err) || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("%v", err)
	}
}
