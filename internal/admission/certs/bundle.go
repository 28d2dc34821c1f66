package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The keys of the Secret. Every Secret of type kubernetes.io/tls has the keys tls.crt and tls.key.
const (
	keyTrusted    = "ca.crt"
	keyServing    = "tls.crt"
	keyServingKey = "tls.key"
	keyNext       = "next.crt"
	keyNextKey    = "next.key"
	// keyAuthorityKey is where an earlier version kept the key of a certificate authority.
	keyAuthorityKey = "ca.key"
)

const (
	// lifetime is how long a certificate is valid.
	lifetime = 365 * 24 * time.Hour
	// skew is how far the clock of an API server may be behind.
	skew = time.Hour
)

// bundle is the content of the Secret. Certificates are self-signed: no key exists that could sign others. An earlier version signed each of them
// with an authority of its own, which is then what clients trust.
type bundle struct {
	// trusted are the certificates that clients have to trust, the newest first.
	trusted []*x509.Certificate
	serving *tls.Certificate
	// next is served once clients trust it; nil for none.
	next *tls.Certificate
}

// newCertificate creates a self-signed certificate for a server with these DNS names and IP addresses.
func newCertificate(names []string, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "drover-webhook"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// encode returns a bundle as the data of a Secret.
func (b *bundle) encode() (map[string][]byte, error) {
	trusted, err := b.caBundle()
	data := map[string][]byte{keyTrusted: trusted}
	err = errors.Join(err, encodePair(data, keyServing, keyServingKey, b.serving))
	if b.next != nil {
		err = errors.Join(err, encodePair(data, keyNext, keyNextKey, b.next))
	}
	return data, err
}

func encodePair(data map[string][]byte, certificate, key string, pair *tls.Certificate) error {
	encoded, err := certutil.EncodeCertificates(pair.Leaf)
	encodedKey, keyErr := keyutil.MarshalPrivateKeyToPEM(pair.PrivateKey)
	data[certificate], data[key] = encoded, encodedKey
	return errors.Join(err, keyErr)
}

// caBundle returns what clients have to trust, as PEM.
func (b *bundle) caBundle() ([]byte, error) { return certutil.EncodeCertificates(b.trusted...) }

// decode reads the data of a Secret. Certificates and keys that do not belong together are an error, which quotes none of them.
func decode(data map[string][]byte) (*bundle, error) {
	trusted, err := certutil.ParseCertsPEM(data[keyTrusted])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyTrusted, err)
	}
	b := &bundle{trusted: trusted}
	if b.serving, err = b.decodePair(data, keyServing, keyServingKey); err != nil {
		return nil, err
	}
	if len(data[keyNext]) > 0 {
		b.next, err = b.decodePair(data, keyNext, keyNextKey)
	}
	return b, err
}

func (b *bundle) decodePair(data map[string][]byte, certificate, key string) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(data[certificate], data[key])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certificate, key, err)
	}
	if !slices.ContainsFunc(b.trusted, func(ca *x509.Certificate) bool { return verifies(ca, pair.Leaf) }) {
		return nil, fmt.Errorf("clients that trust %s do not trust %s", keyTrusted, certificate)
	}
	return &pair, nil
}

// verifies reports whether clients that trust ca trust a certificate.
func verifies(ca, certificate *x509.Certificate) bool {
	return ca.Equal(certificate) || certificate.CheckSignatureFrom(ca) == nil
}
