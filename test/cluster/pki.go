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
	"math/big"
	"net"
	"os"
	"time"
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

// loadAuthority reads the authority of the given name from the folder, or makes one when there is none.
func loadAuthority(l layout, name string) (*authority, error) {
	certPEM, certErr := os.ReadFile(l.cert(name))
	keyPEM, keyErr := os.ReadFile(l.key(name))
	if errors.Is(certErr, os.ErrNotExist) || errors.Is(keyErr, os.ErrNotExist) {
		return createAuthority(l, name)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("cluster: reading the authority %s: %w", name, err)
	}
	cert, certErr := parseCertificate(certPEM)
	key, keyErr := parseKey(keyPEM)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("cluster: reading the authority %s: %w; remove the data folder to start afresh", name, err)
	}
	return &authority{cert: cert, key: key, pem: certPEM}, nil
}

func createAuthority(l layout, name string) (*authority, error) {
	template := newTemplate("drover-sandbox-"+name, nil)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cluster: signing the authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cluster: signing the authority %s: %w", name, err)
	}
	a := &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if err := writeFile(l.key(name), keyPEM); err != nil {
		return nil, err
	}
	return a, writeFile(l.cert(name), a.pem)
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
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

// newTemplate is a certificate without a purpose. Kubernetes reads the user from the common name and the groups from
// the organizations.
func newTemplate(user string, groups []string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(fmt.Sprintf("cluster: the system has no randomness: %v", err))
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		// An hour back, for a clock that is set back while the sandbox is kept.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(certificateLife),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: making a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: encoding a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the certificate is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the key is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key is a %T, which cannot sign", key)
	}
	return signer, nil
}
