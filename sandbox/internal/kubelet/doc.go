// Package kubelet plays a part of the kubelet that kwok leaves out. A stage of kwok sees a Pod without its Node, so that none can give a Pod
// the condition Ready back that kube-controller-manager's node lifecycle controller took from it while its Node was not Ready.
package kubelet
