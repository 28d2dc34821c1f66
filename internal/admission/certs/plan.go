package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// settle is how long a new authority is made known before a certificate of it is shown. API servers learn of it within a second; the
// margin is for those that are cut off.
const settle = time.Hour

// step is what is to be done about a bundle.
type step struct {
	// authority and serving tell which certificate has to be made anew.
	authority, serving bool
	// drop tells that an authority has ended that is still in the bundle.
	drop bool
	// next is when to look again, if nothing is to be done now.
	next time.Time
}

func (s step) idle() bool { return !s.authority && !s.serving && !s.drop }

// plan decides what a bundle needs, for a server of these names. The new authority is made known long before its predecessor ends, and
// certificates in use stay: those who have not heard of it yet are served as before.
func plan(b *bundle, names []string, now time.Time) step {
	if b == nil {
		return step{authority: true, serving: true}
	}
	certificate := b.serving.certificate
	s := step{
		authority: !now.Before(renewal(b.authority.certificate)),
		drop:      slices.ContainsFunc(b.authorities, func(ca *x509.Certificate) bool { return !now.Before(ca.NotAfter) }),
	}
	due := renewal(certificate)
	if slices.ContainsFunc(names, func(name string) bool { return certificate.VerifyHostname(name) != nil }) {
		// Somebody has given the service another name: it does not work until that is in the certificate.
		due = now
	}
	// The first certificate of an authority waits until that is known, unless there is nothing to show meanwhile.
	known := b.authority.certificate.NotBefore.Add(skew + settle)
	if certificate.CheckSignatureFrom(b.authority.certificate) != nil && now.Before(certificate.NotAfter) && due.Before(known) {
		due = known
	}
	// With a new authority on its way, there is time until that is known.
	s.serving = !now.Before(due) && (!s.authority || !now.Before(certificate.NotAfter))
	s.next = due
	for _, ca := range b.authorities {
		s.next = earlier(s.next, ca.NotAfter)
	}
	s.next = earlier(s.next, renewal(b.authority.certificate))
	return s
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// apply makes what a step says is to be made. The names that a certificate has already stay in it for as long as its successor is made for
// the names' sake alone, so that two replicas that are configured differently do not undo each other's.
func (s step) apply(b *bundle, names []string, now time.Time) (*bundle, error) {
	made := &bundle{}
	if b != nil {
		*made = *b
		made.authorities = slices.DeleteFunc(slices.Clone(b.authorities), func(ca *x509.Certificate) bool { return !now.Before(ca.NotAfter) })
	}
	var err error
	if s.authority {
		if made.authority, err = newAuthority(now); err != nil {
			return nil, err
		}
		made.authorities = append([]*x509.Certificate{made.authority.certificate}, made.authorities...)
	}
	if s.serving {
		if b != nil && now.Before(renewal(b.serving.certificate)) {
			names = union(names, b.serving.certificate)
		}
		if made.serving, err = newServing(made.authority, names, now); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// union adds to names those of a certificate.
func union(names []string, certificate *x509.Certificate) []string {
	all := slices.Concat(names, certificate.DNSNames)
	for _, address := range certificate.IPAddresses {
		all = append(all, address.String())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
