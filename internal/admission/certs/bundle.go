package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The keys of the Secret. Two of them are those of any Secret of type kubernetes.io/tls.
const (
	keyAuthorities  = "ca.crt"
	keyAuthorityKey = "ca.key"
	keyServing      = "tls.crt"
	keyServingKey   = "tls.key"
)

// bundle is what the Secret holds.
type bundle struct {
	// authorities are those that clients have to trust, the newest first. Only the newest one has its key still.
	authorities []*x509.Certificate
	authority   pair
	serving     pair
}

// encode writes a bundle as the data of a Secret.
func (b *bundle) encode() (map[string][]byte, error) {
	authorityKey, err := encodeKey(b.authority.key)
	if err != nil {
		return nil, err
	}
	servingKey, err := encodeKey(b.serving.key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyAuthorities: b.trusted(), keyAuthorityKey: authorityKey,
		keyServing: encodeCertificates(b.serving.certificate), keyServingKey: servingKey,
	}, nil
}

// decode reads the data of a Secret. What does not belong together is an error.
func decode(data map[string][]byte) (*bundle, error) {
	authorities, err := decodeCertificates(data[keyAuthorities])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyAuthorities, err)
	}
	b := &bundle{authorities: authorities}
	if b.authority, err = decodePair(data[keyAuthorities], data[keyAuthorityKey]); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyAuthorities, keyAuthorityKey, err)
	}
	if b.serving, err = decodePair(data[keyServing], data[keyServingKey]); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyServing, keyServingKey, err)
	}
	if !slices.ContainsFunc(authorities, func(ca *x509.Certificate) bool { return b.serving.certificate.CheckSignatureFrom(ca) == nil }) {
		return nil, fmt.Errorf("%s is signed by none of %s", keyServing, keyAuthorities)
	}
	return b, nil
}

func decodePair(certificate, key []byte) (pair, error) {
	certificates, err := decodeCertificates(certificate)
	if err != nil {
		return pair{}, err
	}
	p := pair{certificate: certificates[0]}
	if p.key, err = decodeKey(key); err != nil {
		return pair{}, err
	}
	if !p.key.PublicKey.Equal(p.certificate.PublicKey) {
		return pair{}, errors.New("the key is not that of the certificate")
	}
	return p, nil
}

// trusted is what clients have to trust, as PEM.
func (b *bundle) trusted() []byte { return encodeCertificates(b.authorities...) }

// certificate is what the server shows.
func (b *bundle) certificate() *tls.Certificate {
	return &tls.Certificate{
		Certificate: [][]byte{b.serving.certificate.Raw}, PrivateKey: b.serving.key, Leaf: b.serving.certificate,
	}
}

// renewal is when a third of a certificate's life is left.
func renewal(certificate *x509.Certificate) time.Time {
	return certificate.NotAfter.Add(-certificate.NotAfter.Sub(certificate.NotBefore) / 3)
}
