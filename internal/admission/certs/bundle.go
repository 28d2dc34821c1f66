package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The keys of the Secret. Two of them are those of any Secret of type kubernetes.io/tls. An authority signs one certificate when it is made, and its
// key is not kept.
const (
	keyAuthorities = "ca.crt"
	keyServing     = "tls.crt"
	keyServingKey  = "tls.key"
	keyNext        = "next.crt"
	keyNextKey     = "next.key"
	// keyAuthorityKey is where an earlier version kept the key of the authority.
	keyAuthorityKey = "ca.key"
)

// bundle is what the Secret holds.
type bundle struct {
	// authorities are those that clients have to trust, the newest first.
	authorities []*x509.Certificate
	// serving is what the server shows.
	serving pair
	// next is shown when its authority is known; nil for none.
	next *pair
}

// encode writes a bundle as the data of a Secret.
func (b *bundle) encode() (map[string][]byte, error) {
	servingKey, err := encodeKey(b.serving.key)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{
		keyAuthorities: b.trusted(), keyServing: encodeCertificates(b.serving.certificate), keyServingKey: servingKey,
	}
	if b.next != nil {
		data[keyNext] = encodeCertificates(b.next.certificate)
		if data[keyNextKey], err = encodeKey(b.next.key); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// decode reads the data of a Secret. What does not belong together is an error.
func decode(data map[string][]byte) (*bundle, error) {
	authorities, err := decodeCertificates(data[keyAuthorities])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyAuthorities, err)
	}
	b := &bundle{authorities: authorities}
	if b.serving, err = decodeSigned(data, keyServing, keyServingKey, authorities); err != nil {
		return nil, err
	}
	if len(data[keyNext]) > 0 {
		next, err := decodeSigned(data, keyNext, keyNextKey, authorities)
		if err != nil {
			return nil, err
		}
		b.next = &next
	}
	return b, nil
}

// decodeSigned reads a certificate that one of the authorities has signed, and its key.
func decodeSigned(data map[string][]byte, certificate, key string, authorities []*x509.Certificate) (pair, error) {
	p, err := decodePair(data[certificate], data[key])
	if err != nil {
		return pair{}, fmt.Errorf("%s and %s: %w", certificate, key, err)
	}
	if !slices.ContainsFunc(authorities, func(ca *x509.Certificate) bool { return p.certificate.CheckSignatureFrom(ca) == nil }) {
		return pair{}, fmt.Errorf("%s is signed by none of %s", certificate, keyAuthorities)
	}
	return p, nil
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
