// Package guestinfo makes what a virtual machine finds out about itself when it boots: its user data, its host name and its static addresses.
package guestinfo

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The keys of the extra configuration of a virtual machine. Ignition reads its own
// (https://coreos.github.io/ignition/supported-platforms/), Afterburn the kernel arguments
// (https://coreos.github.io/afterburn/usage/initrd-network-cmdline/), and cloud-init the others
// (https://cloudinit.readthedocs.io/en/latest/reference/datasources/vmware.html).
const (
	KeyIgnition  = "guestinfo.ignition.config.data"
	KeyHostname  = "guestinfo.hostname"
	KeyKargs     = "guestinfo.afterburn.initrd.network-kargs"
	KeyStealTime = "stealclock.enable"
	KeyUserData  = "guestinfo.userdata"
	KeyMetadata  = "guestinfo.metadata"
	encoding     = ".encoding"
)

// Address is a static address of a network interface.
type Address struct {
	// Prefix is the address with the length of its network.
	Prefix netip.Prefix
	// Gateway is the network's gateway; the zero value is none.
	Gateway netip.Addr
}

// Interface is a network interface with static addresses; one without any uses DHCP.
type Interface struct {
	Addresses   []Address
	Nameservers []string
}

// Input is what a virtual machine finds out about itself.
type Input struct {
	// Hostname is the name of the Machine, and InstanceID its UID.
	Hostname, InstanceID string
	// UserData is the user data in the Secret; empty for none. Format is Ignition or CloudInit; if it is empty, the format is detected.
	UserData []byte
	Format   Format
	// Interfaces are the network interfaces, in order.
	Interfaces []Interface
}

// Format is who reads user data.
type Format string

// The formats.
const (
	Ignition  Format = "ignition"
	CloudInit Format = "cloud-init"
)

// Extra returns the extra configuration of a virtual machine.
func Extra(in *Input) (map[string]string, error) {
	extra := map[string]string{KeyHostname: in.Hostname, KeyStealTime: "TRUE"}
	data := decoded(in.UserData)
	format := in.Format
	if format == "" {
		format = formatOf(data)
	}
	if kargs := Kargs(in.Interfaces); kargs != "" {
		extra[KeyKargs] = kargs
	}
	switch format {
	case Ignition:
		if len(data) > 0 {
			put(extra, KeyIgnition, data)
		}
	case CloudInit:
		put(extra, KeyUserData, data)
		metadata, err := metadata(in)
		if err != nil {
			return nil, err
		}
		put(extra, KeyMetadata, metadata)
	default:
		return nil, fmt.Errorf("unknown format %q of user data: it is %s or %s", format, Ignition, CloudInit)
	}
	return extra, nil
}

func put(extra map[string]string, key string, value []byte) {
	extra[key], extra[key+encoding] = base64.StdEncoding.EncodeToString(value), "base64"
}

// maxDecodings bounds how often user data is decoded: it may have been encoded by more than one tool.
const maxDecodings = 4

// decoded returns user data without base64.
func decoded(data []byte) []byte {
	for range maxDecodings {
		text := bytes.TrimSpace(data)
		if len(text) == 0 {
			return nil
		}
		plain, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil {
			break
		}
		data = plain
	}
	return data
}

// formatOf finds out who reads user data by its beginning. Ignition is JSON.
func formatOf(data []byte) Format {
	text := bytes.TrimLeft(data, " \t\r\n")
	for _, prefix := range []string{"#cloud-config", "#!", "#include", "#cloud-boothook", "Content-Type:", "MIME-Version:", "## template"} {
		if bytes.HasPrefix(text, []byte(prefix)) {
			return CloudInit
		}
	}
	return Ignition
}

// Kargs returns the kernel arguments for static addresses; empty if there are none.
func Kargs(interfaces []Interface) string {
	var kargs strings.Builder
	for _, nic := range interfaces {
		for _, address := range nic.Addresses {
			gateway := ""
			if address.Gateway.IsValid() && address.Gateway.Is4() == address.Prefix.Addr().Is4() {
				gateway = bracketed(address.Gateway)
			}
			fmt.Fprintf(&kargs, "ip=%s::%s:%s:::none ", bracketed(address.Prefix.Addr()), gateway, mask(address.Prefix))
		}
		if len(nic.Addresses) == 0 {
			continue
		}
		for _, nameserver := range nic.Nameservers {
			if parsed, err := netip.ParseAddr(nameserver); err == nil {
				nameserver = bracketed(parsed)
			}
			fmt.Fprintf(&kargs, "nameserver=%s ", nameserver)
		}
	}
	return kargs.String()
}

// bracketed writes an address without its zone, which may be any text.
func bracketed(address netip.Addr) string {
	address = address.WithZone("")
	if address.Is6() {
		return "[" + address.String() + "]"
	}
	return address.String()
}

// mask returns the netmask of an IPv4 network, and the length of the prefix of an IPv6 network.
func mask(prefix netip.Prefix) string {
	if prefix.Addr().Is6() {
		return fmt.Sprint(prefix.Bits())
	}
	bits := ^uint32(0) << (32 - prefix.Bits())
	if prefix.Bits() == 0 {
		bits = 0
	}
	return netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)}).String()
}

// metadata is what cloud-init reads in addition to user data:
// https://cloudinit.readthedocs.io/en/latest/reference/network-config-format-v2.html
func metadata(in *Input) ([]byte, error) {
	document := map[string]any{"instance-id": in.InstanceID, "local-hostname": in.Hostname}
	if static := slices.IndexFunc(in.Interfaces, func(nic Interface) bool { return len(nic.Addresses) > 0 }); static >= 0 {
		if len(in.Interfaces) > 1 {
			return nil, errors.New("cloud-init cannot know which of several network devices has the static address; use Ignition, or one device")
		}
		document["network"] = map[string]any{"version": 2, "ethernets": map[string]any{"primary": ethernet(&in.Interfaces[static])}}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("writing the metadata for cloud-init: %w", err)
	}
	return text, nil
}

// ethernet describes the only network interface.
func ethernet(nic *Interface) map[string]any {
	var addresses, gateways []string
	for _, address := range nic.Addresses {
		addresses = append(addresses, address.Prefix.String())
		if address.Gateway.IsValid() {
			gateways = append(gateways, address.Gateway.String())
		}
	}
	slices.Sort(gateways)
	described := map[string]any{"match": map[string]any{"name": "e*"}, "addresses": addresses}
	var routes []map[string]string
	for _, gateway := range slices.Compact(gateways) {
		routes = append(routes, map[string]string{"to": "default", "via": gateway})
	}
	if routes != nil {
		described["routes"] = routes
	}
	if nic.Nameservers != nil {
		described["nameservers"] = map[string]any{"addresses": nic.Nameservers}
	}
	return described
}
