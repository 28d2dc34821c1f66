package realnode

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// defaultPods is how many Pods fit on a node.
const defaultPods = 30

// startKubelet starts the kubelet.
func (s *supervisor) startKubelet() (*program, error) {
	text, err := yaml.Marshal(s.kubeletConfig())
	if err != nil {
		return nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	config := s.folder.Path("kubelet.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{
		"kubelet", "--config=" + config, "--kubeconfig=" + s.folder.Kubeconfig(), "--root-dir=" + s.folder.Path("kubelet"),
		"--hostname-override=" + s.plan.Name, "--node-ip=" + s.network.Address().String(),
	}
	if len(s.plan.Labels) > 0 {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(s.plan.Labels)) {
			labels = append(labels, key+"="+s.plan.Labels[key])
		}
		args = append(args, "--node-labels="+strings.Join(labels, ","))
	}
	return s.start("kubelet", self, args...)
}

// kubeletConfig is a cluster's as far as who may ask the kubelet is concerned. It makes do without cgroups of its own, which not every machine
// lets it have.
func (s *supervisor) kubeletConfig() *kubeletconfig.KubeletConfiguration {
	pods := int32(defaultPods)
	if s.plan.MaxPods > 0 {
		pods = int32(s.plan.MaxPods) //nolint:gosec // it never is 2^31
	}
	return &kubeletconfig.KubeletConfiguration{
		TypeMeta:                 metav1.TypeMeta{APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration"},
		ContainerRuntimeEndpoint: "unix://" + s.folder.Socket(),
		PodLogsDir:               s.folder.Path("pods"),
		TLSCertFile:              s.folder.Certificate(),
		TLSPrivateKeyFile:        s.folder.Key(),
		Authentication: kubeletconfig.KubeletAuthentication{
			X509:      kubeletconfig.KubeletX509Authentication{ClientCAFile: s.plan.Authority},
			Anonymous: kubeletconfig.KubeletAnonymousAuthentication{Enabled: new(false)},
			Webhook:   kubeletconfig.KubeletWebhookAuthentication{Enabled: new(true)},
		},
		Authorization:                 kubeletconfig.KubeletAuthorization{Mode: kubeletconfig.KubeletAuthorizationModeWebhook},
		FailCgroupV1:                  new(false),
		CgroupDriver:                  "cgroupfs",
		CgroupsPerQOS:                 new(false),
		EnforceNodeAllocatable:        []string{"none"}, // an empty list would be left out, and be the default
		LocalStorageCapacityIsolation: new(false),
		FailSwapOn:                    new(false),
		MaxPods:                       pods,
		ClusterDomain:                 "cluster.local",
		HealthzPort:                   new(int32(0)),
		EvictionHard:                  map[string]string{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		ImageGCHighThresholdPercent:   new(int32(100)),
		ImageGCLowThresholdPercent:    new(int32(99)),
		NodeStatusUpdateFrequency:     metav1.Duration{Duration: 2 * time.Second},
		SyncFrequency:                 metav1.Duration{Duration: 10 * time.Second},
		ConfigMapAndSecretChangeDetectionStrategy: kubeletconfig.WatchChangeDetectionStrategy,
	}
}
