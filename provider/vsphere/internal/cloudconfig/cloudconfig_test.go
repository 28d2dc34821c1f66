package cloudconfig

import (
	"strings"
	"testing"
)

const (
	yamlText = `global:
  port: 443
  insecureFlag: false
vcenter:
  first: {server: vcenter.example.com, port: 8443, insecureFlag: true, thumbprint: "AA:BB"}
  other.example.com: {caFile: /etc/ca.pem}
labels: {region: k8s-region, zone: k8s-zone}
`
	iniText = `# the older format
[Global]
port = "443"
insecure-flag = "false"
secret-name = "ignored"
[VirtualCenter "vcenter.example.com"]
port = "8443"
insecure-flag = "true"
thumbprint = "AA:BB"
[VirtualCenter "other.example.com"]
ca-file = "/etc/ca.pem"
[Workspace]
datacenter = "dc1"
[Labels]
region = k8s-region
zone = k8s-zone
`
)

func TestParse(t *testing.T) {
	for name, text := range map[string]string{"YAML": yamlText, "INI": iniText} {
		t.Run(name, func(t *testing.T) {
			config, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if config.Region != "k8s-region" || config.Zone != "k8s-zone" {
				t.Errorf("region %q, zone %q", config.Region, config.Zone)
			}
			for server, want := range map[string]Server{
				"vcenter.example.com": {Server: "vcenter.example.com", Port: 8443, Insecure: true, Thumbprint: "AA:BB"},
				"VCENTER.example.com": {Server: "vcenter.example.com", Port: 8443, Insecure: true, Thumbprint: "AA:BB"},
				"other.example.com":   {Server: "other.example.com", Port: 443, CAFile: "/etc/ca.pem"},
				"unknown.example.com": {Server: "unknown.example.com"},
			} {
				if got := config.For(server); got != want {
					t.Errorf("%s: %+v, want %+v", server, got, want)
				}
			}
		})
	}
}

// TestFor_Global: the global section supplies what the entry of a vCenter does not set.
func TestFor_Global(t *testing.T) {
	for name, text := range map[string]string{
		"YAML": "global: {port: 8443, insecureFlag: true, caFile: /ca.pem, thumbprint: AA}\nvcenter:\n  a.example.com: {thumbprint: BB}\n",
		"INI":  "[Global]\nport=8443\ninsecure-flag=1\nca-file=/ca.pem\nthumbprint=AA\n[VirtualCenter \"tenant\"]\nserver=a.example.com\nthumbprint=BB\n",
	} {
		t.Run(name, func(t *testing.T) {
			config, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			want := Server{Server: "a.example.com", Port: 8443, Insecure: true, CAFile: "/ca.pem", Thumbprint: "BB"}
			if got := config.For("a.example.com"); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func TestParse_Invalid(t *testing.T) {
	for name, text := range map[string]string{
		"YAML": "vcenter: [hidden", "INI without a value": "[Global]\nhidden", "INI with a port that is no number": "[Global]\nport = hidden",
	} {
		t.Run(name, func(t *testing.T) {
			if config, err := Parse(text); err == nil {
				t.Errorf("it is read as %+v", config)
			} else if strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "line ") {
				t.Errorf("error %v", err)
			}
		})
	}
	if config, err := Parse(""); err != nil || config.For("a").Server != "a" {
		t.Errorf("an empty configuration: %+v, %v", config, err)
	}
}
