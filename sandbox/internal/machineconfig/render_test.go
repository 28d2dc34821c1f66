package machineconfig

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/test/openshift"
)

func TestRender(t *testing.T) {
	base := []*mcfgv1.MachineConfig{openshift.NewConfig("00-master", "master"), openshift.NewConfig("00-worker", "worker")}
	infra := openshift.NewPool("infra")
	first := render(t, infra, "4.17.2", base...)
	if !strings.HasPrefix(first.Name, "rendered-infra-") || first.Annotations[openshift.VersionKey] != "4.17.2" || !isRendered(first) {
		t.Errorf("it is called %s and has %v", first.Name, first.Annotations)
	}
	if owner := metav1.GetControllerOf(first); owner == nil || owner.Kind != "MachineConfigPool" || owner.Name != "infra" {
		t.Errorf("its owner is %v", owner)
	}
	if again := render(t, infra, "4.17.2", append(base, first)...); again.Name != first.Name {
		t.Errorf("rendered once more it is %s, was %s", again.Name, first.Name)
	}
	if other := render(t, infra, "4.17.3", base...); other.Name == first.Name {
		t.Error("another version has the same name")
	}
	if other := render(t, infra, "4.17.2", append(base, openshift.NewConfig("99-infra", "infra"))...); other.Name == first.Name {
		t.Error("one more MachineConfig changes nothing")
	}
	if other := render(t, infra, "4.17.2", append(base, openshift.NewConfig("99-storage", "storage"))...); other.Name != first.Name {
		t.Error("a MachineConfig that the pool does not select changes it")
	}
}

func TestRender_Refused(t *testing.T) {
	base := []*mcfgv1.MachineConfig{
		openshift.NewConfig("00-master", "master"), openshift.NewConfig("00-worker", "worker"), openshift.NewConfig("99-infra", "infra"),
	}
	selecting := func(role string) *mcfgv1.MachineConfigPool {
		pool := openshift.NewPool("infra")
		pool.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{openshift.RoleLabel: role}}
		return pool
	}
	broken := openshift.NewPool("infra")
	broken.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	many, text := openshift.NewPool("infra"), intstr.FromString("many")
	many.Spec.MaxUnavailable = &text
	cases := map[string]struct {
		pool *mcfgv1.MachineConfigPool
		want string
	}{
		"a custom pool without the workers' configurations": {selecting("infra"), "must select"},
		"nothing selected":         {selecting("storage"), "selects no MachineConfig"},
		"a selector without sense": {broken, "spec.nodeSelector"},
		"a number that is none":    {many, "spec.maxUnavailable"},
	}
	for name, c := range cases {
		if _, err := Render(c.pool, base, "4.17.2"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Render(selecting("worker"), base, "4.17.2"); err != nil {
		t.Errorf("a custom pool with the workers' configurations alone: %v", err)
	}
}
