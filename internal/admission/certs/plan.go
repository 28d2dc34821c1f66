package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// How long a new authority is made known before a certificate of it is shown. API servers learn of it within a second.
const (
	// settle has a margin for API servers that are cut off.
	settle = time.Hour
	// settleNames is for a certificate that lacks a name which clients call.
	settleNames = time.Minute
)

// step is what is to be done about a bundle.
type step struct {
	// renew tells that an authority and a certificate of it have to be made, promote that the next certificate is to be shown.
	renew, promote bool
	// drop tells that an authority has ended that is still in the bundle.
	drop bool
	// next is when to look again, if nothing is to be done now.
	next time.Time
}

func (s step) idle() bool { return !s.renew && !s.promote && !s.drop }

// plan decides what a bundle needs, for a server of these names. A new authority is made known before its certificate is shown, and long before
// its predecessor ends.
func plan(b *bundle, names []string, now time.Time) step {
	if b == nil {
		return step{renew: true, promote: true}
	}
	s := step{drop: slices.ContainsFunc(b.authorities, func(ca *x509.Certificate) bool { return !now.Before(ca.NotAfter) })}
	serving := b.serving.certificate
	ended, named := !now.Before(serving.NotAfter), covers(serving, names)
	if b.next != nil && covers(b.next.certificate, names) {
		wait := settle
		if !named {
			wait = settleNames
		}
		s.next = b.next.certificate.NotBefore.Add(skew + wait)
		s.promote = ended || !now.Before(s.next)
	} else {
		s.next = renewal(serving)
		// Somebody has given the service another name: it does not work until that is in the certificate.
		s.renew = !named || !now.Before(s.next)
		s.promote = ended
	}
	for _, ca := range b.authorities {
		s.next = earlier(s.next, ca.NotAfter)
	}
	return s
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

// apply makes what a step says is to be made. The names that a certificate has already stay in it for as long as its successor is made for
// the names' sake alone, so that two replicas that are configured differently do not undo each other's.
func (s step) apply(b *bundle, names []string, now time.Time) (*bundle, error) {
	made := &bundle{}
	if b != nil {
		*made = *b
		made.authorities = slices.DeleteFunc(slices.Clone(b.authorities), func(ca *x509.Certificate) bool {
			// Of the authorities before, a new one leaves that of the certificate that is shown.
			return !now.Before(ca.NotAfter) || s.renew && b.serving.certificate.CheckSignatureFrom(ca) != nil
		})
	}
	if s.renew {
		if b != nil && now.Before(renewal(b.serving.certificate)) {
			names = union(names, b.serving.certificate)
			if b.next != nil {
				names = union(names, b.next.certificate)
			}
		}
		authority, err := newAuthority(now)
		if err != nil {
			return nil, err
		}
		next, err := newServing(authority, names, now)
		if err != nil {
			return nil, err
		}
		made.authorities = append([]*x509.Certificate{authority.certificate}, made.authorities...)
		made.next = &next
	}
	if s.promote && made.next != nil {
		made.serving, made.next = *made.next, nil
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
