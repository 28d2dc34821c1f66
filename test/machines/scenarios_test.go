package machines

import (
	"fmt"
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestMachineSet_ScaleSubresourceSelector is "publish selector in the scale subresource for HPA targets" of machine-api-operator's suite.
func TestMachineSet_ScaleSubresourceSelector(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("horizontal", 1, nil)
	p.Runs(1)
	scale := &autoscalingv1.Scale{}
	if err := w.Client.SubResource("scale").Get(t.Context(), p.Set(), scale); err != nil {
		t.Fatal(err)
	}
	if want := metav1.FormatLabelSelector(&p.Set().Spec.Selector); scale.Status.Selector != want || scale.Status.Replicas != 1 {
		t.Errorf("the scale's status is %+v, the selector should be %q", scale.Status, want)
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: p.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: p.Name},
			MaxReplicas:    2,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
			}}},
		},
	}
	if err := w.Client.Create(t.Context(), hpa); err != nil {
		t.Fatal(err)
	}
	w.Cleanup(func() { _ = w.Client.Delete(t.Context(), hpa) })
	w.Eventually("the autoscaler can scale the pool", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa); err != nil {
			return err
		}
		for _, condition := range hpa.Status.Conditions {
			if condition.Reason == "InvalidSelector" {
				t.Fatalf("the autoscaler says %+v", condition)
			}
			if condition.Type == autoscalingv2.AbleToScale && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its status is %s", harness.JSON(hpa.Status))
	})
}

// TestMachine_TaintsReachNode is "have ability to additively reconcile taints from machine to nodes".
func TestMachine_TaintsReachNode(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("tainted", 1, nil)
	name := p.Runs(1)[0].Name
	w.Merge(w.Node(name), `{"spec":{"taints":[{"key":"not-from-machine","value":"true","effect":"NoSchedule"}]}}`)
	w.Merge(w.Machine(name), `{"spec":{"taints":[{"key":"from-machine-0","value":"true","effect":"NoSchedule"}]}}`)
	w.Eventually("both taints are on the Node", func() error {
		var keys []string
		for _, taint := range w.Node(name).Spec.Taints {
			keys = append(keys, taint.Key)
		}
		if !slices.Contains(keys, "not-from-machine") || !slices.Contains(keys, "from-machine-0") {
			return fmt.Errorf("it has %v", keys)
		}
		return nil
	})
}

// TestMachineSet_ConcurrentScaling is "grow and decrease when scaling different machineSets simultaneously".
func TestMachineSet_ConcurrentScaling(t *testing.T) {
	w := besideOthers(t)
	down, up := w.MakePool("together-down", 2, nil), w.MakePool("together-up", 0, nil)
	before := down.Runs(2)
	down.Scale(0)
	up.Scale(1)
	up.Runs(1)
	for _, machine := range before {
		down.Gone(machine.Name)
	}
	down.Runs(0)
}

// TestMachine_DrainedBeforeTermination is "drain node before removing machine resource".
func TestMachine_DrainedBeforeTermination(t *testing.T) {
	w := besideOthers(t)
	s := w.Site()
	p := w.MakePool("emptied", 2, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.Labels = map[string]string{harness.SiteLabel: s.Name}
	})
	name := p.Runs(2)[0].Name
	const pods = 20
	s.Deployment("app", harness.Pods{Replicas: pods, Ready: "300ms"})
	w.Eventually("all pods are ready", func() error {
		if ready := readyPods(s.Pods("app")); ready < pods {
			return fmt.Errorf("%d are", ready)
		}
		return nil
	})
	s.Budget("app", "app", harness.MaxUnavailable(1))
	fewest := follow(s, pods)
	p.DeleteMachine(name)
	w.Eventually("the node is cordoned", func() error {
		if !w.Node(name).Spec.Unschedulable {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	p.Gone(name)
	if least := fewest(); least < pods-1 {
		t.Errorf("there were times with %d ready pods of %d", least, pods)
	}
}

func readyPods(pods []corev1.Pod) int {
	ready := 0
	for i := range pods {
		for _, condition := range pods[i].Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pods[i].DeletionTimestamp == nil {
				ready++
			}
		}
	}
	return ready
}

// follow counts the ready pods of a site from now on. The function that it returns gives the lowest number that there has been.
func follow(s *harness.Site, begin int) (fewest func() int) {
	s.Helper()
	watcher, err := client.NewWithWatch(s.Cluster.Admin(), client.Options{})
	if err != nil {
		s.Fatal(err)
	}
	stream, err := watcher.Watch(s.Context(), &corev1.PodList{}, client.InNamespace(s.Name))
	if err != nil {
		s.Fatal(err)
	}
	known, least, done := map[types.UID]corev1.Pod{}, begin, make(chan int, 1)
	go func() {
		for event := range stream.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			known[pod.UID] = *pod
			if event.Type == watch.Deleted {
				delete(known, pod.UID)
			}
			all := make([]corev1.Pod, 0, len(known))
			for _, pod := range known {
				all = append(all, pod)
			}
			// The watch begins with the existing pods, one by one.
			if len(all) >= begin {
				least = min(least, readyPods(all))
			}
		}
		done <- least
	}()
	return func() int {
		stream.Stop()
		return <-done
	}
}

func TestMachine_ExcludedNodeNotDrained(t *testing.T) {
	w := besideOthers(t)
	s := w.Site()
	p := w.MakePool("excluded", 1, func(set *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.Labels = map[string]string{harness.SiteLabel: s.Name}
		set.Spec.Template.Annotations = map[string]string{"machine.openshift.io/exclude-node-draining": ""}
	})
	name := p.Runs(1)[0].Name
	s.Deployment("app", harness.Pods{Replicas: 1})
	s.Budget("app", "app", harness.MinAvailable(1))
	p.DeleteMachine(name)
	p.Gone(name)
}

// The pods of an unreachable node cannot report their end: the Machine must not wait for them.
func TestMachine_UnreachableNodeDoesNotBlockDeletion(t *testing.T) {
	w := besideOthers(t)
	s := w.Site()
	p := w.MakePool("unheard", 1, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.Labels = map[string]string{harness.SiteLabel: s.Name}
	})
	name := p.Runs(1)[0].Name
	s.Pod("stuck", harness.Pods{Node: name, Grace: 1, Ends: harness.Never, Tolerant: true})
	w.Unreachable(name)
	p.DeleteMachine(name)
	p.Gone(name)
}

func TestMachine_Paused(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("paused", 1, nil)
	name := p.Runs(1)[0].Name
	w.Merge(w.Machine(name), `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`)
	condition(p, name, "Ready", "Paused")
	p.DeleteMachine(name)
	// Its place is taken, which shows that the deletion has been heard of.
	w.Eventually("another Machine runs", func() error {
		for _, machine := range p.Machines() {
			if machine.Name != name && machine.Status.NodeRef != nil {
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
	if w.Node(name).Spec.Unschedulable || *w.Machine(name).Status.Phase != machinev1beta1.PhaseRunning {
		t.Error("the deletion has begun")
	}
	w.Merge(w.Machine(name), `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null}}}`)
	p.Gone(name)
}

func TestMachineSet_ReplacesFailedMachinesOnRequest(t *testing.T) {
	harness.TestAllOnly(t, "a minute of back-off")
	w, _ := world(t, "--machines-replace-failed")
	p := w.MakePool("failing", 2, nil)
	lost := p.Runs(2)[0]
	// The instance is gone behind Drover's back, and its Node with it.
	w.Merge(w.Machine(lost.Name), `{"spec":{"providerSpec":{"value":{"failure":{"vanishesAfter":"1ms"}}}}}`)
	p.Gone(lost.Name)
	p.Runs(2)
}

func TestMachineSet_MinReadySeconds(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("patient", 1, func(set *machinev1beta1.MachineSet, _ *kwok.ProviderSpec) { set.Spec.MinReadySeconds = 5 })
	w.Eventually("the Machine counts as available", func() error {
		status := p.Set().Status
		if status.AvailableReplicas != 1 {
			return fmt.Errorf("the status is %s", harness.JSON(status))
		}
		return nil
	})
	for _, condition := range w.Node(p.Machines()[0].Status.NodeRef.Name).Status.Conditions {
		// The API keeps whole seconds.
		if since := time.Since(condition.LastTransitionTime.Time); condition.Type == corev1.NodeReady && since < 5*time.Second {
			t.Errorf("it is available %s after its Node turned Ready", since)
		}
	}
}
