// Package config reads Drover's settings: defaults, then the configuration file, then flags, and checks the result.
package config
