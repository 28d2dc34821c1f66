//go:build drover_core

package controlplane

import "github.com/drover-io/drover/sandbox/internal/programs"

var controllers = programs.Set{}
