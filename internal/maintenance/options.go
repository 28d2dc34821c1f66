package maintenance

import (
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/spec"
)

// DrainOptions reads spec.drain; nil is the default. The error names the field that cannot be read.
func DrainOptions(from *medik8s.DrainSpec) (drain.Options, error) { return spec.DrainOptions(from) }
