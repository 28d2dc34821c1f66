// Package cloudconfig reads what the provider uses of the configuration of the cloud provider for vSphere, in YAML and in the older INI format:
// https://github.com/kubernetes/cloud-provider-vsphere/tree/master/pkg/common/config
package cloudconfig

import (
	"bufio"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Config is what the provider uses of a cloud configuration. The zero value is the configuration of a cluster without one.
type Config struct {
	// Global counts for vCenters that have no entry of their own, and for what theirs do not set.
	Global Server
	// Servers are the entries of vCenters.
	Servers []Server
	// Region and Zone are the categories of the tags that name the region and the zone of a host.
	Region, Zone string
}

// Server is what a cloud configuration says of a vCenter.
type Server struct {
	// Server is its host name or address.
	Server string
	// Port is zero if the configuration has none.
	Port int
	// Insecure turns the verification of the certificate off.
	Insecure bool
	// CAFile is a file with certificate authorities, and Thumbprint the thumbprint of the certificate.
	CAFile, Thumbprint string
}

// For returns what counts for a vCenter.
func (c *Config) For(server string) Server {
	for _, entry := range c.Servers {
		if strings.EqualFold(entry.Server, server) {
			entry.Port = cmp.Or(entry.Port, c.Global.Port)
			entry.Insecure = entry.Insecure || c.Global.Insecure
			entry.CAFile, entry.Thumbprint = cmp.Or(entry.CAFile, c.Global.CAFile), cmp.Or(entry.Thumbprint, c.Global.Thumbprint)
			return entry
		}
	}
	other := c.Global
	other.Server, other.Port = server, 0
	return other
}

// Parse reads a configuration in either format.
func Parse(text string) (*Config, error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
			continue
		case strings.HasPrefix(line, "["):
			return parseINI(text)
		}
		break
	}
	return parseYAML(text)
}

// document is the YAML format.
type document struct {
	Global  entry            `json:"global"`
	VCenter map[string]entry `json:"vcenter"`
	Labels  struct {
		Region string `json:"region"`
		Zone   string `json:"zone"`
	} `json:"labels"`
}

type entry struct {
	Server       string `json:"server"`
	Port         int    `json:"port"`
	InsecureFlag bool   `json:"insecureFlag"`
	CAFile       string `json:"caFile"`
	Thumbprint   string `json:"thumbprint"`
}

func (e *entry) server(key string) Server {
	if e.Server == "" {
		e.Server = key
	}
	return Server{Server: e.Server, Port: e.Port, Insecure: e.InsecureFlag, CAFile: e.CAFile, Thumbprint: e.Thumbprint}
}

func parseYAML(text string) (*Config, error) {
	var parsed document
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		return nil, fmt.Errorf("reading the cloud configuration: %w", err)
	}
	config := &Config{Global: parsed.Global.server(""), Region: parsed.Labels.Region, Zone: parsed.Labels.Zone}
	for key, of := range parsed.VCenter {
		config.Servers = append(config.Servers, of.server(key))
	}
	return config, nil
}

func parseINI(text string) (*Config, error) {
	config := &Config{}
	section, current := "", (*Server)(nil)
	scanner := bufio.NewScanner(strings.NewReader(text))
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			name, of, _ := strings.Cut(strings.Trim(line, "[]"), " ")
			section, current = strings.ToLower(name), &config.Global
			if section == "virtualcenter" {
				config.Servers = append(config.Servers, Server{Server: strings.Trim(strings.TrimSpace(of), `"`)})
				current = &config.Servers[len(config.Servers)-1]
			}
		default:
			key, value, found := strings.Cut(line, "=")
			if !found {
				return nil, fmt.Errorf("reading the cloud configuration: line %d has no value", number)
			}
			// The text of a line may be a password: it does not go into conditions.
			if err := config.set(section, current, strings.ToLower(strings.TrimSpace(key)), unquoted(value)); err != nil {
				return nil, fmt.Errorf("reading the cloud configuration: line %d: the value is invalid", number)
			}
		}
	}
	return config, scanner.Err()
}

func unquoted(value string) string { return strings.Trim(strings.TrimSpace(value), `"`) }

// setLabel takes one line of the section of labels over.
func (c *Config) setLabel(key, value string) {
	switch key {
	case "region":
		c.Region = value
	case "zone":
		c.Zone = value
	}
}

// set takes one line of the INI format over. Sections and keys that the provider does not use are left out.
func (c *Config) set(section string, server *Server, key, value string) (err error) {
	switch {
	case section == "labels":
		c.setLabel(key, value)
	case section != "global" && section != "virtualcenter":
	case key == "server" && section == "virtualcenter":
		// The name of the section is then the name of a tenant.
		server.Server = value
	case key == "port":
		server.Port, err = strconv.Atoi(value)
	case key == "insecure-flag":
		server.Insecure, err = strconv.ParseBool(value)
	case key == "ca-file":
		server.CAFile = value
	case key == "thumbprint":
		server.Thumbprint = value
	}
	return err
}
