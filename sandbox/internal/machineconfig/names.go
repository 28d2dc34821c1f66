package machineconfig

// annotationGeneratedBy marks rendered MachineConfigs.
const annotationGeneratedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

// The Nodes that kwok plays have the first annotation; the second one, with the value "false", has the sandbox's kwok report them NotReady.
const (
	annotationKwok      = "kwok.x-k8s.io/node"
	annotationKwokReady = "sandbox.drover.io/ready"
)

// drainRequest and uncordonRequest are the values of the two drain annotations.
func drainRequest(config string) string    { return "drain-" + config }
func uncordonRequest(config string) string { return "uncordon-" + config }
