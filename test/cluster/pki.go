package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is how long a sandbox's certificates are valid: long enough for a folder that is resumed for months.
const certificateLife = 2 * 365 * 24 * time.Hour

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// identity is the subject of a client certificate.
type identity struct {
	user   string
	groups []string
}

// loadAuthority reads the authority of the given name from the folder, or creates one when there is none.
func loadAuthority(l layout, name string) (*authority, error) {
	certs, certErr := certutil.CertsFromFile(l.cert(name))
	key, keyErr := keyutil.PrivateKeyFromFile(l.key(name))
	if errors.Is(certErr, os.ErrNotExist) || errors.Is(keyErr, os.ErrNotExist) {
		return createAuthority(l, name)
	}
	signer, ok := key.(crypto.Signer)
	if err := errors.Join(certErr, keyErr); err != nil || !ok {
		return nil, fmt.Errorf("cluster: reading the authority %s: %w; remove the data folder to start afresh", name, err)
	}
	certPEM, err := certutil.EncodeCertificates(certs...)
	return &authority{cert: certs[0], key: signer, pem: certPEM}, err
}

func createAuthority(l layout, name string) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "drover-sandbox-" + name, NotBefore: time.Now().Add(-time.Hour)}, key)
	if err != nil {
		return nil, fmt.Errorf("cluster: signing the authority %s: %w", name, err)
	}
	certPEM, err := certutil.EncodeCertificates(cert)
	if err != nil {
		return nil, fmt.Errorf("cluster: encoding the authority %s: %w", name, err)
	}
	return &authority{cert: cert, key: key, pem: certPEM}, errors.Join(WriteFile(l.key(name), keyPEM), WriteFile(l.cert(name), certPEM))
}

// client issues a client certificate for an identity and returns it and its key as PEM.
func (a *authority) client(who identity) (certPEM, keyPEM []byte, err error) {
	template := newTemplate(who.user, who.groups)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for a server on this machine, which may be a client too, as etcd is of itself.
func (a *authority) server(name string) (certPEM, keyPEM []byte, err error) {
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	return a.serverAt(name, names, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)})
}

// serverAt issues a certificate for a server with some names and addresses.
func (a *authority) serverAt(name string, names []string, addresses []net.IP) (certPEM, keyPEM []byte, err error) {
	template := newTemplate(name, nil)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.IPAddresses, template.DNSNames = addresses, names
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der}), keyPEM, nil
}

// newTemplate is a certificate without a purpose. Kubernetes reads the user from the common name and the groups from
// the organizations.
func newTemplate(user string, groups []string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups},
		// An hour back, for a clock that is set back while the sandbox is kept.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(certificateLife),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: creating a key: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: encoding a key: %w", err)
	}
	return key, keyPEM, nil
}
