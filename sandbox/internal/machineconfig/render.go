package machineconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/test/openshift"
)

const renderedPrefix = "rendered-"

// Render makes the MachineConfig of a pool for a version from the MachineConfigs that the pool selects. The same input gives the same name; a
// different version or different contents give a different name.
func Render(pool *mcfgv1.MachineConfigPool, configs []*mcfgv1.MachineConfig, version string) (*mcfgv1.MachineConfig, error) {
	if err := specError(pool); err != nil {
		return nil, err
	}
	sources, err := sourcesOf(pool, configs)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for _, part := range sources {
		if err := errors.Join(encoder.Encode(part.Name), encoder.Encode(part.Spec)); err != nil {
			return nil, fmt.Errorf("MachineConfig %s: %w", part.Name, err)
		}
	}
	if err := encoder.Encode(version); err != nil {
		return nil, err
	}
	name := renderedPrefix + pool.Name + "-" + hex.EncodeToString(hash.Sum(nil))[:hashLength]
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{openshift.VersionKey: version, annotationGeneratedBy: version},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(pool, mcfgv1.GroupVersion.WithKind("MachineConfigPool")),
			},
		},
		Spec: openshift.NewConfigSpec(releaseImage(version)),
	}, nil
}

// hashLength is how long the end of a rendered MachineConfig's name is that stands for its contents.
const hashLength = 32

// sameContents reports whether two rendered MachineConfigs have the same contents, also when they belong to different pools.
func sameContents(a, b string) bool {
	if a == b {
		return true
	}
	if len(a) < hashLength || len(b) < hashLength || !strings.HasPrefix(a, renderedPrefix) || !strings.HasPrefix(b, renderedPrefix) {
		return false
	}
	return a[len(a)-hashLength:] == b[len(b)-hashLength:]
}

// sourcesOf lists the MachineConfigs that a pool selects, by name. A custom pool must select some of worker's, or its Nodes would lack what
// every worker has.
func sourcesOf(pool *mcfgv1.MachineConfigPool, configs []*mcfgv1.MachineConfig) ([]*mcfgv1.MachineConfig, error) {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, err
	}
	var sources []*mcfgv1.MachineConfig
	base := false
	for _, config := range configs {
		if isRendered(config) || selector.Empty() || !selector.Matches(labels.Set(config.Labels)) {
			continue
		}
		sources = append(sources, config)
		base = base || config.Labels[openshift.RoleLabel] == openshift.PoolWorker
	}
	switch {
	case len(sources) == 0:
		return nil, errors.New("spec.machineConfigSelector selects no MachineConfig")
	case isCustom(pool.Name) && !base:
		return nil, fmt.Errorf("spec.machineConfigSelector of a custom pool must select the MachineConfigs with the label %s=%s too",
			openshift.RoleLabel, openshift.PoolWorker)
	}
	slices.SortFunc(sources, func(a, b *mcfgv1.MachineConfig) int { return strings.Compare(a.Name, b.Name) })
	return sources, nil
}

// isRendered reports whether a MachineConfig was rendered for a pool; users write the others.
func isRendered(config *mcfgv1.MachineConfig) bool {
	return config.Annotations[annotationGeneratedBy] != ""
}

// targetOf is the spec.configuration of a pool that is to have a rendered MachineConfig.
func targetOf(rendered *mcfgv1.MachineConfig, sources []*mcfgv1.MachineConfig) mcfgv1.MachineConfigPoolStatusConfiguration {
	reference := func(name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig", Name: name}
	}
	target := mcfgv1.MachineConfigPoolStatusConfiguration{ObjectReference: corev1.ObjectReference{Name: rendered.Name}}
	for _, source := range sources {
		target.Source = append(target.Source, reference(source.Name))
	}
	return target
}

// releaseImage is the made-up image of a version.
func releaseImage(version string) string { return "release.sandbox.invalid/openshift:" + version }
