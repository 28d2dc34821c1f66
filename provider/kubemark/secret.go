package kubemark

import (
	"context"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// annotationExpires on a Secret says until when its token is good.
const annotationExpires = "kubemark.provider.drover.dev/expires"

const (
	// tokenLife is for how long a token is good: as long as a Pod may wait for its image. The API server may give it less.
	tokenLife = time.Hour
	// tokenSpare is how long before its end a token that has not been used is replaced.
	tokenSpare = 10 * time.Minute
)

// ensureSecret makes the Secret of a Pod that has not started, with a token that is bound to the Pod and good for nothing once that is gone. One
// that an earlier Pod of the name left behind, or whose token is about to end, is replaced.
func (a *Actuator) ensureSecret(ctx context.Context, machine *machinev1beta1.Machine, pod *corev1.Pod) error {
	secrets := a.core.Secrets(pod.Namespace)
	old, err := secrets.Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading secret %s/%s: %w", pod.Namespace, pod.Name, err)
	case !ours(old, machine):
		return fmt.Errorf("secret %s/%s is there already and is not this Machine's", pod.Namespace, pod.Name)
	case metav1.IsControlledBy(old, pod) && a.clock.Now().Add(tokenSpare).Before(expiryOf(old)):
		return nil
	default:
		if err := secrets.Delete(ctx, old.Name, onlyThis(old)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("replacing secret %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	secret, err := a.newSecret(ctx, machine, pod)
	if err != nil {
		return err
	}
	if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating secret %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (a *Actuator) newSecret(ctx context.Context, machine *machinev1beta1.Machine, pod *corev1.Pod) (*corev1.Secret, error) {
	account := pod.Spec.ServiceAccountName
	answer, err := a.core.ServiceAccounts(pod.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: new(int64(tokenLife / time.Second)),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of service account %s/%s: %w", pod.Namespace, account, err)
	}
	text, err := kubeconfig(a.config, answer.Status.Token)
	if err != nil {
		return nil, err
	}
	meta := metaOf(machine, pod.Namespace)
	meta.Annotations[annotationExpires] = answer.Status.ExpirationTimestamp.UTC().Format(time.RFC3339)
	// Whatever becomes of the Pod, the garbage collector takes the Secret with it. To hold up the Pod's deletion, as owned objects often do,
	// would take one more permission on OpenShift, and is of no use.
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	owner.BlockOwnerDeletion = nil
	meta.OwnerReferences = []metav1.OwnerReference{*owner}
	return &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{KubeconfigKey: text}}, nil
}

// expiryOf is when the token in a Secret ends; long ago where that is not said.
func expiryOf(secret *corev1.Secret) time.Time {
	at, err := time.Parse(time.RFC3339, secret.Annotations[annotationExpires])
	if err != nil {
		return time.Time{}
	}
	return at
}

// kubeconfig is one with a token, for the API server that Drover itself works with.
func kubeconfig(config *rest.Config, token string) ([]byte, error) {
	server := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(server); err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	const name = "kubemark"
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: server.Host, CertificateAuthorityData: server.CAData, TLSServerName: server.ServerName, InsecureSkipTLSVerify: server.Insecure,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering a kubeconfig: %w", err)
	}
	return text, nil
}
