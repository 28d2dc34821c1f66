package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// How long clients trust a new certificate before it is served. API servers read it within a second.
const (
	// trustPeriod has a margin for API servers that are cut off.
	trustPeriod = time.Hour
	// trustPeriodNames is for a server whose certificate lacks a name that clients call.
	trustPeriodNames = time.Minute
)

// step is what has to be done about a bundle.
type step struct {
	// renew creates the next certificate, promote serves it.
	renew, promote bool
	// drop removes trusted certificates that have expired.
	drop bool
	// next is when to check again, if nothing has to be done now.
	next time.Time
}

func (s step) idle() bool { return !s.renew && !s.promote && !s.drop }

// plan decides what a bundle needs, for a server with these names. Clients trust a new certificate before it is served, and long before its
// predecessor expires.
func plan(b *bundle, names []string, now time.Time) step {
	if b == nil {
		return step{renew: true, promote: true}
	}
	s := step{drop: slices.ContainsFunc(b.trusted, func(ca *x509.Certificate) bool { return !now.Before(ca.NotAfter) })}
	serving := b.serving.Leaf
	expired, named := !now.Before(serving.NotAfter), covers(serving, names)
	if b.next != nil && covers(b.next.Leaf, names) {
		wait := trustPeriod
		if !named {
			wait = trustPeriodNames
		}
		s.next = b.next.Leaf.NotBefore.Add(skew + wait)
		s.promote = expired || !now.Before(s.next)
	} else {
		s.next = renewal(serving)
		s.renew = !named || !now.Before(s.next)
		s.promote = expired
	}
	for _, ca := range b.trusted {
		s.next = earlier(s.next, ca.NotAfter)
	}
	return s
}

// renewal is when a third of a certificate's lifetime is left.
func renewal(certificate *x509.Certificate) time.Time {
	return certificate.NotAfter.Add(-certificate.NotAfter.Sub(certificate.NotBefore) / 3)
}

// covers reports whether a certificate is for all of these names.
func covers(certificate *x509.Certificate, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return certificate.VerifyHostname(name) != nil })
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// apply carries out a step. A certificate that is created only because names have changed keeps the names of its predecessor, so that two replicas
// with different configurations do not undo each other's work.
func (s step) apply(b *bundle, names []string, now time.Time) (*bundle, error) {
	result := &bundle{}
	if b != nil {
		*result = *b
		result.trusted = slices.DeleteFunc(slices.Clone(b.trusted), func(ca *x509.Certificate) bool {
			return !now.Before(ca.NotAfter) || s.renew && !verifies(ca, b.serving.Leaf)
		})
	}
	if s.renew {
		if b != nil && now.Before(renewal(b.serving.Leaf)) {
			names = union(names, b.serving.Leaf)
			if b.next != nil {
				names = union(names, b.next.Leaf)
			}
		}
		next, err := newCertificate(names, now)
		if err != nil {
			return nil, err
		}
		result.trusted = append([]*x509.Certificate{next.Leaf}, result.trusted...)
		result.next = next
	}
	if s.promote && result.next != nil {
		result.serving, result.next = result.next, nil
	}
	return result, nil
}

// union adds the names of a certificate to names.
func union(names []string, certificate *x509.Certificate) []string {
	all := slices.Concat(names, certificate.DNSNames)
	for _, address := range certificate.IPAddresses {
		all = append(all, address.String())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
