package certs

import (
	"bytes"
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

// advance does what is due and fails the test when it does not come to an end.
func advance(t *testing.T, b *bundle, names []string, now time.Time) *bundle {
	t.Helper()
	for range 4 {
		s := plan(b, names, now)
		if s.idle() {
			if !s.next.After(now) {
				t.Fatalf("%s: nothing to do, and the next look is at %s", now, s.next)
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

// verify does what the API server does with a certificate.
func verify(b *bundle, trusted []byte, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	_, err := b.serving.certificate.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
	return err
}

func TestTheFirstCertificateIsShownAtOnce(t *testing.T) {
	b := advance(t, nil, names, epoch)
	for _, name := range names {
		// An API server whose clock is behind takes it, too.
		for _, now := range []time.Time{epoch.Add(-59 * time.Minute), epoch, epoch.Add(364 * day)} {
			if err := verify(b, b.trusted(), name, now); err != nil {
				t.Errorf("%s at %s: %v", name, now, err)
			}
		}
	}
	if err := verify(b, b.trusted(), "other.svc", epoch); err == nil {
		t.Error("it is good for any name")
	}
	if len(b.authorities) != 1 || b.serving.certificate.IsCA {
		t.Errorf("%d authorities, the certificate is one: %t", len(b.authorities), b.serving.certificate.IsCA)
	}
	if certificate := b.certificate(); certificate.Leaf != b.serving.certificate || certificate.PrivateKey != b.serving.key {
		t.Error("the server shows something else")
	}
}

// A whole life: whatever an API server learned an hour ago is enough to trust what is shown now.
func TestRotationNeverLosesAnybody(t *testing.T) {
	b := advance(t, nil, names, epoch)
	old := b.trusted()
	served, authorities := 0, 0
	newest := b.authorities[0]
	for now := epoch; now.Before(epoch.Add(30 * 365 * day)); {
		next := plan(b, names, now).next
		if next.Sub(now) > servingLife {
			t.Fatalf("at %s the next look is at %s", now, next)
		}
		// Looks also come by chance, and late.
		now = next.Add(time.Minute)
		before := b
		b = advance(t, b, names, now)
		if err := verify(b, old, names[0], now); err != nil {
			t.Fatalf("%s: who looked last at the one before does not trust: %v", now, err)
		}
		if !b.serving.certificate.Equal(before.serving.certificate) {
			served++
		}
		if !b.authorities[0].Equal(newest) {
			authorities++
			newest = b.authorities[0]
			if b.serving.certificate != before.serving.certificate {
				t.Errorf("%s: the new authority is used before it is known", now)
			}
		}
		if left := b.serving.certificate.NotAfter.Sub(now); left < 100*day {
			t.Errorf("%s: only %s are left", now, left)
		}
		if len(b.authorities) > 2 {
			t.Errorf("%s: %d authorities", now, len(b.authorities))
		}
		old = b.trusted()
	}
	if served < 40 || authorities < 40 {
		t.Errorf("%d certificates and %d authorities in thirty years", served, authorities)
	}
}

func TestAfterALongAbsence(t *testing.T) {
	first := advance(t, nil, names, epoch)
	for name, c := range map[string]struct {
		after       time.Duration
		authorities int
		serving     bool
	}{
		"nothing is due":                      {100 * day, 1, false},
		"a third is left: the next one waits": {250 * day, 2, false},
		"the certificate has ended":           {400 * day, 1, true},
	} {
		now := epoch.Add(c.after)
		b := advance(t, first, names, now)
		if len(b.authorities) != c.authorities || b.serving.certificate.Equal(first.serving.certificate) == c.serving {
			t.Errorf("%s: %d authorities, the same certificate: %t", name, len(b.authorities), !c.serving)
		}
		if err := verify(b, b.trusted(), names[0], now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if late := advance(t, b, names, now.Add(settle)); late.next != nil {
			t.Errorf("%s: an hour later the next certificate is not shown", name)
		}
	}
}

func TestANewNameIsAddedAndNoneIsTakenAway(t *testing.T) {
	first := advance(t, nil, names, epoch)
	now := epoch.Add(time.Minute)
	known := advance(t, first, []string{"::1", "other.svc"}, now)
	if err := verify(known, first.trusted(), names[0], now); err != nil {
		t.Errorf("before the new authority is known: %v", err)
	}
	now = now.Add(settleNames)
	second := advance(t, known, []string{"::1", "other.svc"}, now)
	for _, name := range []string{"::1", "other.svc", names[0], names[1]} {
		if err := verify(second, known.trusted(), name, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A replica that is configured differently has nothing to undo, neither before nor after.
	for _, b := range []*bundle{known, second} {
		if s := plan(b, names, epoch.Add(time.Minute)); !s.idle() {
			t.Errorf("%+v is to be done", s)
		}
	}
	// The old name goes with the next certificate.
	third := advance(t, second, []string{"::1", "other.svc"}, epoch.Add(300*day))
	now = epoch.Add(301 * day)
	third = advance(t, third, []string{"::1", "other.svc"}, now)
	if err := verify(third, third.trusted(), names[0], now); err == nil {
		t.Errorf("%v are in the certificate still", third.serving.certificate.DNSNames)
	}
}

func TestABundleIsReadAsItWasWritten(t *testing.T) {
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
	if !bytes.Equal(read.trusted(), b.trusted()) || len(read.authorities) != 2 || !read.serving.key.Equal(b.serving.key) ||
		!read.next.key.Equal(b.next.key) || !read.serving.certificate.Equal(b.serving.certificate) {
		t.Error("it is another one")
	}
	if _, kept := data["ca.key"]; kept || len(data) != 5 {
		t.Errorf("the Secret has %v: who reads it could sign certificates that API servers trust", slices.Collect(maps.Keys(data)))
	}
}

func TestWhatDoesNotBelongTogetherIsNoBundle(t *testing.T) {
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
		"nothing":                {func(d map[string][]byte) { clear(d) }, "ca.crt: no certificate"},
		"no certificate":         {func(d map[string][]byte) { d["tls.crt"] = nil }, "tls.crt and tls.key: no certificate"},
		"no key":                 {func(d map[string][]byte) { d["tls.key"] = []byte("x") }, "tls.crt and tls.key: no key"},
		"a key as a certificate": {func(d map[string][]byte) { d["tls.crt"] = d["tls.key"] }, `a block "PRIVATE KEY" where a certificate is expected`},
		"a certificate as a key": {func(d map[string][]byte) { d["tls.key"] = d["ca.crt"] }, "a key that cannot be read"},
		"another's key":          {func(d map[string][]byte) { d["tls.key"] = other["tls.key"] }, "the key is not that of the certificate"},
		"another's authority":    {func(d map[string][]byte) { d["ca.crt"] = other["ca.crt"] }, "tls.crt is signed by none of ca.crt"},
		"a next one without key": {func(d map[string][]byte) { d["next.crt"] = d["tls.crt"] }, "next.crt and next.key: no key"},
		"a foreign next one": {func(d map[string][]byte) { d["next.crt"], d["next.key"] = other["tls.crt"], other["tls.key"] },
			"next.crt is signed by none of ca.crt"},
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
