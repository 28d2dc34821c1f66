package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// The identities of the components, by component and for the administrator.
var identities = map[string]identity{
	"admin":           {user: "kubernetes-admin", groups: []string{"system:masters"}},
	ControllerManager: {user: "system:kube-controller-manager"},
	Scheduler:         {user: "system:kube-scheduler"},
	Kwok:              {user: "system:kwok"},
}

// credentials are the authorities of a control plane. etcd has one of its own, because every client that it signs may read
// every object; so have the requests of aggregated API servers, because their clients may name any user.
type credentials struct {
	ca, etcd, frontProxy *authority
}

// loadCredentials reads the authorities from the folder and makes what is missing: the authorities, the serving and
// client certificates of the components and the signing key of the service accounts.
func loadCredentials(l layout) (*credentials, error) {
	ca, err := loadAuthority(l, "ca")
	if err != nil {
		return nil, err
	}
	etcd, err := loadAuthority(l, "etcd-ca")
	if err != nil {
		return nil, err
	}
	frontProxy, err := loadAuthority(l, "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler} {
		signer := ca
		if name == Etcd {
			signer = etcd
		}
		if err := ensurePair(l, name, func() ([]byte, []byte, error) { return signer.server(name) }); err != nil {
			return nil, err
		}
	}
	clients := []struct {
		file   string
		signer *authority
		who    identity
	}{
		{"etcd-client", etcd, identity{user: "kube-apiserver-etcd-client"}},
		{"kubelet-client", ca, identity{user: "kube-apiserver-kubelet-client", groups: []string{"kubeadm:cluster-admins"}}},
		{"front-proxy-client", frontProxy, identity{user: "front-proxy-client"}},
	}
	for _, c := range clients {
		if err := ensurePair(l, c.file, func() ([]byte, []byte, error) { return c.signer.client(c.who) }); err != nil {
			return nil, err
		}
	}
	return &credentials{ca: ca, etcd: etcd, frontProxy: frontProxy}, ensureServiceAccountKey(l)
}

// ensurePair writes what issue returns as the named certificate and key unless both files exist.
func ensurePair(l layout, name string, issue func() ([]byte, []byte, error)) error {
	_, certErr := os.Stat(l.cert(name))
	_, keyErr := os.Stat(l.key(name))
	if certErr == nil && keyErr == nil {
		return nil
	}
	certPEM, keyPEM, err := issue()
	if err != nil {
		return err
	}
	if err := WriteFile(l.key(name), keyPEM); err != nil {
		return err
	}
	return WriteFile(l.cert(name), certPEM)
}

// ensureServiceAccountKey makes the key that signs the tokens of service accounts, and its public half.
func ensureServiceAccountKey(l layout) error {
	const name = "service-account"
	if _, err := os.Stat(l.key(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("cluster: encoding the service account key: %w", err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := WriteFile(l.cert(name), public); err != nil {
		return err
	}
	return WriteFile(l.key(name), keyPEM)
}
