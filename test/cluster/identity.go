package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tokenSeconds is the life of the tokens of AsServiceAccount: longer than any test.
const tokenSeconds int64 = 12 * 60 * 60

// As returns a configuration of the given user in the given groups, by a client certificate that this control plane's
// authority signed. The API server adds the group system:authenticated.
func (c *Cluster) As(user string, groups ...string) (*rest.Config, error) {
	return c.clientConfig(identity{user: user, groups: groups})
}

// AsNode returns a configuration of the kubelet of the given node.
func (c *Cluster) AsNode(name string) (*rest.Config, error) {
	return c.As("system:node:"+name, "system:nodes")
}

// AsServiceAccount returns a configuration with a token of an existing service account, good for twelve hours.
func (c *Cluster) AsServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	clients, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return nil, fmt.Errorf("cluster: making a client: %w", err)
	}
	seconds := tokenSeconds
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("cluster: asking for a token of the service account %s/%s: %w", namespace, name, err)
	}
	cfg := c.Anonymous()
	cfg.BearerToken = answer.Status.Token
	return cfg, nil
}

// Anonymous returns a configuration without credentials, which the API server refuses.
func (c *Cluster) Anonymous() *rest.Config { return rest.AnonymousClientConfig(c.Admin()) }

// Kubeconfig writes a kubeconfig file for a configuration into the data folder and returns its path.
func (c *Cluster) Kubeconfig(cfg *rest.Config) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(c.AdminKubeconfig()), "user-*.kubeconfig")
	if err != nil {
		return "", fmt.Errorf("cluster: making a kubeconfig file: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("cluster: making a kubeconfig file: %w", err)
	}
	return file.Name(), WriteKubeconfig(cfg, file.Name())
}
