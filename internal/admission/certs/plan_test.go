package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	names = []string{"drover-webhook.drover-system.svc", "127.0.0.1"}
)

const day = 24 * time.Hour

// advance carries out what is due, and fails the test if that does not end.
func advance(t *testing.T, b *bundle, names []string, now time.Time) *bundle {
	t.Helper()
	for range 4 {
		s := plan(b, names, now)
		if s.idle() {
			if !s.next.After(now) {
				t.Fatalf("%s: nothing to do, and the next check is at %s", now, s.next)
			}
			return b
		}
		var err error
		if b, err = s.apply(b, names, now); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%s: there is always something to do", now)
	return nil
}

// caBundle returns what clients of a bundle trust.
func caBundle(t *testing.T, b *bundle) []byte {
	t.Helper()
	trusted, err := b.caBundle()
	if err != nil {
		t.Fatal(err)
	}
	return trusted
}

// verify verifies a certificate as the API server does.
func verify(b *bundle, trusted []byte, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	_, err := b.serving.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
	return err
}

func TestPlan_ServesTheFirstCertificateAtOnce(t *testing.T) {
	b := advance(t, nil, names, epoch)
	for _, name := range names {
		// An API server whose clock is behind accepts it.
		for _, now := range []time.Time{epoch.Add(-59 * time.Minute), epoch, epoch.Add(364 * day)} {
			if err := verify(b, caBundle(t, b), name, now); err != nil {
				t.Errorf("%s at %s: %v", name, now, err)
			}
		}
	}
	if err := verify(b, caBundle(t, b), "other.svc", epoch); err == nil {
		t.Error("it is valid for any name")
	}
	if len(b.trusted) != 1 || b.serving.Leaf.IsCA {
		t.Errorf("%d trusted certificates; the serving one is an authority: %t", len(b.trusted), b.serving.Leaf.IsCA)
	}
}

// An API server that has read the caBundle an hour ago trusts what is served now, for thirty years.
func TestPlan_ServesWhatClientsTrust(t *testing.T) {
	b := advance(t, nil, names, epoch)
	old := caBundle(t, b)
	served, created := 0, 0
	newest := b.trusted[0]
	for now := epoch; now.Before(epoch.Add(30 * 365 * day)); {
		next := plan(b, names, now).next
		if next.Sub(now) > lifetime {
			t.Fatalf("at %s the next check is at %s", now, next)
		}
		// Checks are late.
		now = next.Add(time.Minute)
		before := b
		b = advance(t, b, names, now)
		if err := verify(b, old, names[0], now); err != nil {
			t.Fatalf("%s: a client of the caBundle before does not trust the certificate: %v", now, err)
		}
		if !b.serving.Leaf.Equal(before.serving.Leaf) {
			served++
		}
		if !b.trusted[0].Equal(newest) {
			created++
			newest = b.trusted[0]
			if b.serving.Leaf != before.serving.Leaf {
				t.Errorf("%s: the new certificate is served before clients trust it", now)
			}
		}
		if left := b.serving.Leaf.NotAfter.Sub(now); left < 100*day {
			t.Errorf("%s: only %s are left", now, left)
		}
		if len(b.trusted) > 2 {
			t.Errorf("%s: %d trusted certificates", now, len(b.trusted))
		}
		old = caBundle(t, b)
	}
	if served < 40 || created < 40 {
		t.Errorf("%d certificates served and %d created in thirty years", served, created)
	}
}

func TestPlan_AfterALongAbsence(t *testing.T) {
	first := advance(t, nil, names, epoch)
	for name, c := range map[string]struct {
		after   time.Duration
		trusted int
		serving bool
	}{
		"nothing is due": {100 * day, 1, false},
		"a third is left: the next one is trusted first": {250 * day, 2, false},
		"the certificate has expired":                    {400 * day, 1, true},
	} {
		now := epoch.Add(c.after)
		b := advance(t, first, names, now)
		if len(b.trusted) != c.trusted || b.serving.Leaf.Equal(first.serving.Leaf) == c.serving {
			t.Errorf("%s: %d trusted certificates; the serving one has changed: %t", name, len(b.trusted), !c.serving)
		}
		if err := verify(b, caBundle(t, b), names[0], now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if late := advance(t, b, names, now.Add(trustPeriod)); late.next != nil {
			t.Errorf("%s: an hour later the next certificate is not served", name)
		}
	}
}

func TestPlan_AddsANewNameAndKeepsTheOthers(t *testing.T) {
	first := advance(t, nil, names, epoch)
	now := epoch.Add(time.Minute)
	known := advance(t, first, []string{"::1", "other.svc"}, now)
	if err := verify(known, caBundle(t, first), names[0], now); err != nil {
		t.Errorf("before clients trust the new certificate: %v", err)
	}
	now = now.Add(trustPeriodNames)
	second := advance(t, known, []string{"::1", "other.svc"}, now)
	for _, name := range []string{"::1", "other.svc", names[0], names[1]} {
		if err := verify(second, caBundle(t, known), name, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A replica with another configuration has nothing to undo, neither before nor after.
	for _, b := range []*bundle{known, second} {
		if s := plan(b, names, epoch.Add(time.Minute)); !s.idle() {
			t.Errorf("another replica plans %+v", s)
		}
	}
	// The old name goes with the next certificate.
	third := advance(t, second, []string{"::1", "other.svc"}, epoch.Add(300*day))
	now = epoch.Add(301 * day)
	third = advance(t, third, []string{"::1", "other.svc"}, now)
	if err := verify(third, caBundle(t, third), names[0], now); err == nil {
		t.Errorf("%v are in the certificate still", third.serving.Leaf.DNSNames)
	}
}

func TestBundle_DecodesWhatItEncoded(t *testing.T) {
	b := advance(t, nil, names, epoch)
	b = advance(t, b, names, epoch.Add(250*day))
	data, err := b.encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(caBundle(t, read), caBundle(t, b)) || len(read.trusted) != 2 || !sameKey(read.serving, b.serving) ||
		!sameKey(read.next, b.next) || !read.serving.Leaf.Equal(b.serving.Leaf) {
		t.Error("the bundles differ")
	}
	if _, kept := data["ca.key"]; kept || len(data) != 5 {
		t.Errorf("the Secret has %v: users who can read it could sign certificates that API servers trust", slices.Collect(maps.Keys(data)))
	}
}

func sameKey(a, b *tls.Certificate) bool {
	key, ok := a.PrivateKey.(*ecdsa.PrivateKey)
	return ok && key.Equal(b.PrivateKey)
}

// An earlier version signed each certificate with an authority of its own. Such a Secret stays in use until its certificate is due.
func TestBundle_RenewsACertificateOfAnAuthority(t *testing.T) {
	old := signedByAuthority(t)
	data, err := old.encode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if s := plan(b, names, epoch); !s.idle() {
		t.Errorf("%+v is due", s)
	}
	due := epoch.Add(250 * day)
	b = advance(t, b, names, due)
	if err := verify(b, caBundle(t, old), names[0], due); err != nil || len(b.trusted) != 2 || b.next == nil {
		t.Errorf("%d trusted certificates: %v", len(b.trusted), err)
	}
	later := advance(t, b, names, due.Add(trustPeriod))
	if err := verify(later, caBundle(t, b), names[0], due); err != nil || !later.serving.Leaf.Equal(b.next.Leaf) {
		t.Errorf("an hour later: %v", err)
	}
}

func signedByAuthority(t *testing.T) *bundle {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		NotBefore: epoch, NotAfter: epoch.Add(lifetime), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	b := advance(t, nil, names, epoch)
	signed, err := x509.CreateCertificate(rand.Reader, b.serving.Leaf, authority, b.serving.Leaf.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if b.serving.Leaf, err = x509.ParseCertificate(signed); err != nil {
		t.Fatal(err)
	}
	b.trusted = []*x509.Certificate{authority}
	return b
}

func TestDecode_RefusesWhatDoesNotBelongTogether(t *testing.T) {
	encode := func() map[string][]byte {
		data, err := advance(t, nil, names, epoch).encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good, other := encode(), encode()
	for name, c := range map[string]struct {
		change func(map[string][]byte)
		want   string
	}{
		"nothing":                {func(d map[string][]byte) { clear(d) }, "ca.crt: data does not contain any valid"},
		"no certificate":         {func(d map[string][]byte) { d["tls.crt"] = nil }, "tls.crt and tls.key: tls: failed to find any PEM data in cert"},
		"no key":                 {func(d map[string][]byte) { d["tls.key"] = []byte("x") }, "tls.key: tls: failed to find any PEM data in key"},
		"a key as a certificate": {func(d map[string][]byte) { d["tls.crt"] = d["tls.key"] }, "tls.key: tls: failed to find certificate PEM data"},
		"a certificate as a key": {func(d map[string][]byte) { d["tls.key"] = d["ca.crt"] }, "tls: found a certificate rather than a key"},
		"the key of another":     {func(d map[string][]byte) { d["tls.key"] = other["tls.key"] }, "private key does not match public key"},
		"trusted is another":     {func(d map[string][]byte) { d["ca.crt"] = other["ca.crt"] }, "clients that trust ca.crt do not trust tls.crt"},
		"a next one without key": {func(d map[string][]byte) { d["next.crt"] = d["tls.crt"] }, "next.key: tls: failed to find any PEM data in key"},
		"the next of another": {func(d map[string][]byte) { d["next.crt"], d["next.key"] = other["tls.crt"], other["tls.key"] },
			"clients that trust ca.crt do not trust next.crt"},
	} {
		data := map[string][]byte{}
		for key, value := range good {
			data[key] = slices.Clone(value)
		}
		c.change(data)
		_, err := decode(data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: the error quotes the Secret: %v", name, err)
		}
	}
}
