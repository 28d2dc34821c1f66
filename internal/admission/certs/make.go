package certs

import (
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
	"time"
)

const (
	// servingLife is also that of the authority, which signs nothing else.
	servingLife = 365 * 24 * time.Hour
	// skew is how far the API server's clock may be behind.
	skew = time.Hour
)

// The blocks of PEM that are written and read.
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
)

// pair is a certificate with its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority makes a certificate that signs others.
func newAuthority(now time.Time) (pair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Drover webhook CA " + now.UTC().Format("2006-01-02")},
		NotBefore: now.Add(-skew), NotAfter: now.Add(servingLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(template, nil)
}

// newServing makes a certificate for a server of these names, which are names of the DNS or addresses.
func newServing(authority pair, names []string, now time.Time) (pair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "drover-webhook"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(servingLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if authority.certificate.NotAfter.Before(template.NotAfter) {
		template.NotAfter = authority.certificate.NotAfter
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(template, &authority)
}

// sign makes a key and a certificate for it. Without an authority it signs itself.
func sign(template *x509.Certificate, authority *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair{}, fmt.Errorf("making a serial number: %w", err)
	}
	if authority == nil {
		authority = &pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.certificate, &key.PublicKey, authority.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return pair{certificate, key}, err
}

func encodeCertificates(certificates ...*x509.Certificate) []byte {
	var text []byte
	for _, certificate := range certificates {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: certificate.Raw})...)
	}
	return text
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

func decodeCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != blockCertificate {
			return nil, fmt.Errorf("a block %q where a certificate is expected", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate")
	}
	return all, nil
}

func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		// What the parser says may quote what it read.
		return nil, errors.New("a key that cannot be read")
	}
	typed, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T where an ECDSA key is expected", key)
	}
	return typed, nil
}
