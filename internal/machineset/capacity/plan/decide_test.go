package plan

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-io/drover/provider"
)

const (
	p = "capacity.cluster-autoscaler.kubernetes.io/"
	g = "machine.openshift.io/"
)

type values = map[string]string

// resources returns cpu and memory.
func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// size is the capacity of most cases, and sized what Drover writes for it.
var (
	size  = &provider.Capacity{Resources: resources("4", "16Gi")}
	sized = values{p + "cpu": "4", p + "memory": "16Gi", g + "vCPU": "4", g + "memoryMb": "16384"}
)

// recorded returns annotations with a record of written ones.
func recorded(written values, more ...values) values {
	text, err := json.Marshal(written)
	if err != nil {
		panic(err)
	}
	all := values{"drover.dev/capacity": string(text)}
	maps.Copy(all, written)
	return join(append([]values{all}, more...)...)
}

func join(all ...values) values {
	joined := values{}
	for _, one := range all {
		maps.Copy(joined, one)
	}
	return joined
}

// without returns annotations without some keys.
func without(all values, keys ...string) values {
	left := maps.Clone(all)
	for _, key := range keys {
		delete(left, key)
	}
	return left
}

func TestAnnotations_Owner(t *testing.T) {
	user := values{"example.com/a": "b", g + "cluster-api-autoscaler-node-group-max-size": "5"}
	double := &provider.Capacity{Resources: resources("8", "32Gi")}
	doubled := values{p + "cpu": "8", p + "memory": "32Gi", g + "vCPU": "8", g + "memoryMb": "32768"}
	for name, c := range map[string]struct {
		before   values
		capacity *provider.Capacity
		after    values
	}{
		"nothing yet: all is written":                   {user, size, recorded(sized, user)},
		"at rest: nothing changes":                      {recorded(sized, user), size, recorded(sized, user)},
		"the template changed: all is refreshed":        {recorded(sized, user), double, recorded(doubled, user)},
		"a key was removed: it is written again":        {without(recorded(sized), p+"cpu"), size, recorded(sized)},
		"another capability's annotations stay":         {join(user, sized), size, recorded(sized, user)},
		"the provider reports none: own keys go":        {recorded(sized, user), nil, user},
		"the provider reports none: nothing is touched": {join(sized, user), nil, join(sized, user)},
		"the provider reports none: user values stay":   {join(recorded(sized), values{p + "cpu": "2"}), nil, values{p + "cpu": "2"}},
		"machine-api-operator wrote the same: adopted":  {values{g + "vCPU": "4", g + "memoryMb": "16384"}, size, recorded(sized)},
		"cluster-autoscaler-operator copied them: adopted": {
			values{g + "vCPU": "4", g + "memoryMb": "16384", p + "cpu": "4", p + "memory": "17179869184"}, size, recorded(sized),
		},
		"an empty value is a user's":                 {values{p + "taints": ""}, size, recorded(sized, values{p + "taints": ""})},
		"machine-api-operator knew no size: adopted": {values{g + "vCPU": "0", g + "memoryMb": "0"}, size, recorded(sized)},
		"and it was copied: adopted": {
			values{g + "vCPU": "0", g + "memoryMb": "0", p + "cpu": "0", p + "memory": "0"}, size, recorded(sized),
		},
		"the record cannot be read: all is the user's": {
			join(sized, values{"drover.dev/capacity": "["}), double, join(sized, values{"drover.dev/capacity": "{}"}),
		},
		"same as the user's, recorded without it: still the user's": {
			join(recorded(without(sized, p+"cpu")), values{p + "cpu": "4"}), double,
			join(recorded(join(without(doubled, p+"cpu"), values{g + "vCPU": "4"})), values{p + "cpu": "4"}),
		},
		"a copy for a MachineAutoscaler: taken over": {
			values{p + "cpu": "2", g + "vCPU": "2", "drover.dev/capacity-copy": `{"` + p + `cpu":"2"}`}, size,
			// What was copied from is a user's.
			join(recorded(join(without(sized, g+"vCPU"), values{p + "cpu": "2"})), values{g + "vCPU": "2"}),
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, c.before, c.capacity, c.after) })
	}
}

func TestAnnotations_UserValues(t *testing.T) {
	for name, c := range map[string]struct{ before, written values }{
		"cpu":             {values{p + "cpu": "2500m"}, join(without(sized, p+"cpu"), values{g + "vCPU": "2"})},
		"vCPU":            {values{g + "vCPU": "2"}, join(without(sized, g+"vCPU"), values{p + "cpu": "2"})},
		"memory":          {values{p + "memory": "3G"}, join(without(sized, p+"memory"), values{g + "memoryMb": "2861"})},
		"memoryMb":        {values{g + "memoryMb": "1024"}, join(without(sized, g+"memoryMb"), values{p + "memory": "1Gi"})},
		"both":            {values{p + "cpu": "2", g + "vCPU": "3"}, without(sized, p+"cpu", g+"vCPU")},
		"none from zero":  {values{p + "cpu": "0"}, without(sized, p+"cpu", g+"vCPU")},
		"an exponent":     {values{p + "cpu": "1e-1000000000", g + "memoryMb": "0e2000000000"}, without(sized, p+"cpu", g+"memoryMb")},
		"not a number":    {values{g + "vCPU": "many"}, without(sized, g+"vCPU")},
		"GPUs":            {values{g + "GPU": "2"}, join(sized, values{p + "gpu-count": "2", p + "gpu-type": "nvidia.com/gpu"})},
		"GPUs of a type":  {values{p + "gpu-count": "2"}, join(sized, values{g + "GPU": "2", p + "gpu-type": "nvidia.com/gpu"})},
		"labels, maxPods": {values{p + "labels": "a=b", p + "maxPods": "30"}, join(sized, values{g + "maxPods": "30"})},
	} {
		t.Run(name, func(t *testing.T) { check(t, c.before, size, recorded(c.written, c.before)) })
	}
}

// check compares the annotations that a MachineSet gets, and that the next time nothing changes.
func check(t *testing.T, before values, capacity *provider.Capacity, want values) {
	t.Helper()
	set := &machinev1beta1.MachineSet{}
	set.Annotations = maps.Clone(before)
	after, changed := Annotations(set, capacity, Protected{})
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("wanted (-) and written (+):\n%s", diff)
	}
	if changed == maps.Equal(before, after) {
		t.Errorf("changed: %v", changed)
	}
	if diff := cmp.Diff(before, set.Annotations); diff != "" {
		t.Errorf("the MachineSet has changed:\n%s", diff)
	}
	set.Annotations = after
	if again, changed := Annotations(set, capacity, Protected{}); changed {
		t.Errorf("the second time it changes:\n%s", cmp.Diff(after, again))
	}
}

func TestValuesOf(t *testing.T) {
	set := &machinev1beta1.MachineSet{}
	set.Spec.Template.Spec.Labels = values{"node-role.kubernetes.io/gpu": "", "zone": "b", "kubernetes.io/hostname": "x", "not valid": "x"}
	set.Spec.Template.Spec.Labels["kubernetes.io/arch"] = "wrong"
	set.Spec.Template.Spec.Taints = []corev1.Taint{
		{Key: "gpu", Effect: "NoSchedule"}, {Key: "b", Value: "c", Effect: "NoExecute"}, {Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"},
	}
	got := valuesOf(set, &provider.Capacity{
		Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("3500m"), corev1.ResourceMemory: resource.MustParse("1000M"),
			corev1.ResourceEphemeralStorage: resource.MustParse("120Gi"), corev1.ResourcePods: resource.MustParse("250"),
			"hugepages-2Mi": resource.MustParse("1Gi"),
		},
		GPU:       provider.GPU{Type: "nvidia.com/gpu", Count: 2, DRADriver: "gpu.nvidia.com"},
		Labels:    values{"kubernetes.io/arch": "arm64", "zone": "a"},
		Taints:    []corev1.Taint{{Key: "gpu", Value: "true", Effect: "NoSchedule"}, {Key: "gpu", Effect: "NoExecute"}},
		CSILimits: map[string]int32{"b.example.com": 8, "a.example.com": 25},
	}, Protected{
		Label: func(key string) bool { return key == "kubernetes.io/arch" },
		Taint: func(taint corev1.Taint) bool { return taint.Key == "node.kubernetes.io/unreachable" },
	})
	want := values{
		p + "cpu": "3500m", p + "memory": "1G", p + "ephemeral-disk": "120Gi", p + "maxPods": "250", p + "gpu-count": "2",
		p + "gpu-type": "nvidia.com/gpu", p + "dra-driver": "gpu.nvidia.com", p + "csi-driver": "a.example.com=25,b.example.com=8",
		p + "labels": "kubernetes.io/arch=arm64,node-role.kubernetes.io/gpu=,zone=b",
		p + "taints": "b=c:NoExecute,gpu=:NoExecute,gpu=:NoSchedule",
		g + "vCPU":   "3", g + "memoryMb": "953", g + "GPU": "2", g + "maxPods": "250",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wanted (-) and written (+):\n%s", diff)
	}
	if got := valuesOf(&machinev1beta1.MachineSet{}, &provider.Capacity{
		Resources: resources("500m", "1Ki"), GPU: provider.GPU{Type: "amd.com/gpu", Count: 1},
	}, Protected{}); got[g+"vCPU"] != "" || got[g+"memoryMb"] != "" || got[g+"GPU"] != "" || got[p+"gpu-type"] != "amd.com/gpu" {
		t.Errorf("what rounds to zero, and GPUs of another type: %v", got)
	}
}
