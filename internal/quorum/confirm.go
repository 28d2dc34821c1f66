package quorum

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staticPods are the names of static Pods that run the control plane. The kubelet appends the name of its Node.
var staticPods = []string{"kube-apiserver-", "etcd-"}

// podLists are where these Pods are: on OpenShift in namespaces of their own, elsewhere in kube-system with a label that kubeadm, RKE2 and Talos
// share. The lists are short however many Nodes and Pods a cluster has.
func podLists(openShift bool) [][]client.ListOption {
	if openShift {
		return [][]client.ListOption{{client.InNamespace("openshift-kube-apiserver")}, {client.InNamespace(etcdNamespace)}}
	}
	return [][]client.ListOption{{client.InNamespace("kube-system"), client.MatchingLabels{"tier": "control-plane"}}}
}

// unconfirmed returns the members that have the label of the control plane and run none of its static Pods: an author of MachineSets may have given
// them the label. Where no member runs one, as on k3s, or where they may not be read, the labels have to suffice.
func (g *Guard) unconfirmed(ctx context.Context, openShift bool, members []corev1.Node) (sets.Set[string], error) {
	without := sets.New[string]()
	for i := range members {
		without.Insert(members[i].Name)
	}
	for _, options := range podLists(openShift) {
		pods := &corev1.PodList{}
		switch err := g.reader.List(ctx, pods, options...); {
		case apierrors.IsForbidden(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing the static Pods of the control plane: %w", err)
		}
		for i := range pods.Items {
			if confirms(&pods.Items[i]) {
				without.Delete(pods.Items[i].Spec.NodeName)
			}
		}
	}
	if without.Len() == len(members) {
		return nil, nil
	}
	return without, nil
}

// confirms reports whether a Pod says that its Node belongs to the control plane: a kubelet has created it for a static Pod of kube-apiserver or
// etcd.
func confirms(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	node := pod.Spec.NodeName
	return mirror && node != "" &&
		slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == "Node" && owner.Name == node }) &&
		slices.ContainsFunc(staticPods, func(name string) bool { return pod.Name == name+strings.ToLower(node) })
}
