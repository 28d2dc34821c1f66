package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	config "github.com/drover-io/drover/api/config/v1alpha1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// example is a block of YAML in a page.
var example = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamples_HaveOnlyFieldsThatExist: each manifest in a page, of a kind that Drover serves or Kubernetes has, names only fields of that kind.
func TestExamples_HaveOnlyFieldsThatExist(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), machinev1beta1.Install(scheme), autoscaling.AddToScheme(scheme),
		drover.AddToScheme(scheme), kubevirt.AddToScheme(scheme), medik8s.AddToScheme(scheme), mutex.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range markdownPages(t) {
		for _, block := range example.FindAllStringSubmatch(read(t, page), -1) {
			for text := range strings.SplitSeq(block[1], "\n---\n") {
				kind := metav1.TypeMeta{}
				if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
					t.Errorf("%s: %v in\n%s", page, err, text)
					continue
				}
				var object any = &config.DroverConfiguration{}
				if kind.APIVersion != config.APIVersion {
					known, err := scheme.New(kind.GroupVersionKind())
					if err != nil {
						continue // a fragment, or an object of another program
					}
					object = known
				}
				checked++
				if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
					t.Errorf("%s: %v in\n%s", page, err, text)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d examples were found", checked)
	}
}
