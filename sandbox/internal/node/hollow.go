package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
	crifake "k8s.io/cri-client/pkg/fake"
	cadvisor "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

// play runs the kubelet with a runtime in this process until its context ends.
func (h *hollowNode) play(ctx context.Context, config *rest.Config) error {
	capacity, err := quantities(h.resources)
	if err != nil {
		return err
	}
	flags, settings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName: h.name, KubeletPort: h.port, KubeletReadOnlyPort: h.readOnlyPort, MaxPods: h.maxPods,
		NodeLabels: maps.Clone(h.labels), RegisterWithTaints: h.taints,
	})
	// It is always below /tmp, and nothing in it is of use to the next one.
	defer func() { _ = os.RemoveAll(flags.RootDirectory) }()
	settings.EnableServer = h.port > 0
	// The kubelet would create the chains on the machine that runs this process.
	settings.MakeIPTablesUtilChains = false
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	// Heartbeats do not wait in the queue of all else, and end before the next one is due.
	beating := rest.CopyConfig(config)
	beating.QPS = -1
	beating.Timeout = min(settings.NodeStatusUpdateFrequency.Duration, time.Duration(settings.NodeLeaseDurationSeconds)*time.Second)
	heart, err := kubernetes.NewForConfig(beating)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	endpoint, err := crifake.GenerateEndpoint()
	if err != nil {
		return fmt.Errorf("making the runtime's socket: %w", err)
	}
	runtime := crifake.NewFakeRemoteRuntime()
	if err := runtime.Start(endpoint); err != nil {
		return fmt.Errorf("starting the runtime: %w", err)
	}
	defer runtime.Stop()
	service, err := criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint(endpoint).WithConnectionTimeout(15 * time.Second).Build(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the runtime: %w", err)
	}
	kubelet := kubemark.NewHollowKubelet(flags, settings, client, heart, &cadvisor.Fake{NodeName: h.name}, runtime.ImageService, service,
		cm.NewStubContainerManagerWithDevicePluginResource(capacity))
	go kubelet.Run(ctx)
	h.health.follow(ctx, func(ready bool) {
		runtime.RuntimeService.Lock()
		defer runtime.RuntimeService.Unlock()
		runtime.RuntimeService.FakeStatus = runtimeStatus(ready)
	})
	<-ctx.Done()
	return nil
}

func quantities(texts map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, text := range texts {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("--extended-resources: %s=%s: %w", name, text, err)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// runtimeStatus is what the runtime says of itself; a kubelet whose runtime is not ready reports a Node that is not.
func runtimeStatus(ready bool) *runtimeapi.RuntimeStatus {
	condition := &runtimeapi.RuntimeCondition{Type: runtimeapi.RuntimeReady, Status: ready}
	if !ready {
		condition.Reason, condition.Message = "Asked", "it was asked to be unhealthy now"
	}
	return &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{condition, {Type: runtimeapi.NetworkReady, Status: true}}}
}

// healthPlan says when the node is to turn NotReady. The zero value is never.
type healthPlan struct {
	once, again        bool
	healthy, unhealthy time.Duration
}

// follow turns the node NotReady, and back, at its times. It returns when nothing more is to come, or its context has ended.
func (p healthPlan) follow(ctx context.Context, turn func(ready bool)) {
	sleep := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for p.once || p.again {
		if !sleep(p.healthy) {
			return
		}
		turn(false)
		if p.once || !sleep(p.unhealthy) {
			return
		}
		turn(true)
	}
}
