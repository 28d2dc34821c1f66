package guestinfo

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

const ignition = `{"ignition":{"version":"3.4.0"}}`

func TestExtra_UserData(t *testing.T) {
	for name, c := range map[string]struct {
		data   string
		format Format
		want   map[string]string
	}{
		"Ignition": {ignition, "", map[string]string{KeyIgnition: encoded(ignition), KeyIgnition + encoding: "base64"}},
		"Ignition, encoded twice": {
			encoded(encoded(ignition)), "", map[string]string{KeyIgnition: encoded(ignition), KeyIgnition + encoding: "base64"},
		},
		"none":         {"", "", map[string]string{KeyIgnition: "", KeyIgnition + encoding: ""}},
		"a newline":    {"\n", "", map[string]string{KeyIgnition: ""}},
		"cloud-config": {"#cloud-config\n{}", "", map[string]string{KeyUserData: encoded("#cloud-config\n{}"), KeyIgnition: ""}},
		"a script":     {"#!/bin/sh\n", "", map[string]string{KeyUserData: encoded("#!/bin/sh\n")}},
		"cloud-init by its format": {
			"custom", CloudInit, map[string]string{KeyUserData: encoded("custom"), KeyUserData + encoding: "base64", KeyIgnition: ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Extra(&Input{Hostname: "worker-1", InstanceID: "uid", UserData: []byte(c.data), Format: c.format})
			if err != nil {
				t.Fatal(err)
			}
			c.want[KeyHostname], c.want[KeyStealTime] = "worker-1", "TRUE"
			for key, want := range c.want {
				if got[key] != want {
					t.Errorf("%s is %q, want %q", key, got[key], want)
				}
			}
		})
	}
	if _, err := Extra(&Input{Format: "other"}); err == nil {
		t.Error("an unknown format is no error")
	}
}

func TestKargs(t *testing.T) {
	address := func(prefix, gateway string) Address {
		a := Address{Prefix: netip.MustParsePrefix(prefix)}
		if gateway != "" {
			a.Gateway = netip.MustParseAddr(gateway)
		}
		return a
	}
	for name, c := range map[string]struct {
		nics []Interface
		want string
	}{
		"DHCP": {[]Interface{{Nameservers: []string{"10.0.0.1"}}}, ""},
		"IPv4": {
			[]Interface{{Addresses: []Address{address("192.168.1.100/24", "192.168.1.1")}, Nameservers: []string{"8.8.8.8"}}},
			"ip=192.168.1.100::192.168.1.1:255.255.255.0:::none nameserver=8.8.8.8 ",
		},
		"IPv6": {
			[]Interface{{Addresses: []Address{address("2001:db8::d37d/64", "2001:db8::1")}, Nameservers: []string{"2001:db8::53"}}},
			"ip=[2001:db8::d37d]::[2001:db8::1]:64:::none nameserver=[2001:db8::53] ",
		},
		"a gateway of the other family": {[]Interface{{Addresses: []Address{address("10.1.2.3/8", "2001:db8::1")}}}, "ip=10.1.2.3:::255.0.0.0:::none "},
		"two devices": {
			[]Interface{{Addresses: []Address{address("10.0.0.2/31", "")}}, {Addresses: []Address{address("10.0.0.4/0", "")}}},
			"ip=10.0.0.2:::255.255.255.254:::none ip=10.0.0.4:::0.0.0.0:::none ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Kargs(c.nics); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestExtra_CloudInitNetwork(t *testing.T) {
	nic := Interface{
		Addresses:   []Address{{Prefix: netip.MustParsePrefix("10.0.0.2/24"), Gateway: netip.MustParseAddr("10.0.0.1")}},
		Nameservers: []string{"10.0.0.53"},
	}
	extra, err := Extra(&Input{Hostname: "worker-1", InstanceID: "uid", UserData: []byte("#cloud-config"), Interfaces: []Interface{nic}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(extra[KeyMetadata])
	if err != nil {
		t.Fatal(err)
	}
	var metadata map[string]any
	if err := json.Unmarshal(text, &metadata); err != nil {
		t.Fatal(err)
	}
	wanted := []string{`"instance-id":"uid"`, `"local-hostname":"worker-1"`, `"addresses":["10.0.0.2/24"]`, `"via":"10.0.0.1"`, `"10.0.0.53"`}
	for _, want := range wanted {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metadata lacks %s: %s", want, text)
		}
	}
	if _, err := Extra(&Input{UserData: []byte("#cloud-config"), Interfaces: []Interface{nic, {}}}); err == nil {
		t.Error("a static address for one of two devices is no error")
	}
}

func FuzzExtra(f *testing.F) {
	f.Add([]byte(ignition), "")
	f.Add([]byte("\n"), "cloud-init")
	f.Fuzz(func(t *testing.T, data []byte, format string) {
		extra, err := Extra(&Input{Hostname: "n", UserData: data, Format: Format(format)})
		if err != nil {
			return
		}
		for _, key := range []string{KeyIgnition, KeyUserData, KeyMetadata} {
			if _, err := base64.StdEncoding.DecodeString(extra[key]); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

// TestKargs_Zone: the zone of an address may be any text, and is no kernel argument.
func TestKargs_Zone(t *testing.T) {
	gateway := netip.MustParseAddr("fe80::1%] rd.break=pre-mount x=")
	address := Address{Prefix: netip.MustParsePrefix("2001:db8::5/64"), Gateway: gateway}
	kargs := Kargs([]Interface{{Addresses: []Address{address}, Nameservers: []string{gateway.String()}}})
	if strings.Contains(kargs, "rd.break") || !strings.Contains(kargs, "::[fe80::1]:64:") {
		t.Errorf("the kernel arguments are %q", kargs)
	}
}
