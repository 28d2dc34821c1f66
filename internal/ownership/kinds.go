package ownership

// Kind is one of the three kinds of metadata that a MachineSet declares for its Nodes.
type Kind string

// The kinds, in the order of the reports.
const (
	Label      Kind = "label"
	Annotation Kind = "annotation"
	Taint      Kind = "taint"
)

// Kinds lists all kinds.
var Kinds = []Kind{Label, Annotation, Taint}
