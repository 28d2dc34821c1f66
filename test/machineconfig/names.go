package machineconfig

// The pools that every cluster has. All others are custom pools.
const (
	PoolMaster = "master"
	PoolWorker = "worker"
)

// ClusterVersionName is the name of the only ClusterVersion.
const ClusterVersionName = "version"

const prefix = "machineconfiguration.openshift.io/"

// What the original writes on Nodes.
const (
	// AnnotationCurrentConfig names the rendered MachineConfig that the Node runs.
	AnnotationCurrentConfig = prefix + "currentConfig"
	// AnnotationDesiredConfig names the one that it is to run.
	AnnotationDesiredConfig = prefix + "desiredConfig"
	// AnnotationState is one of the States.
	AnnotationState = prefix + "state"
	// AnnotationReason says why the state is Degraded.
	AnnotationReason = prefix + "reason"
	// AnnotationDesiredDrain is what the Node asks of the drain: drain-CONFIG or uncordon-CONFIG.
	AnnotationDesiredDrain = prefix + "desiredDrain"
	// AnnotationLastAppliedDrain is what of that was done last.
	AnnotationLastAppliedDrain = prefix + "lastAppliedDrain"
	// VersionKey is an annotation of a rendered MachineConfig: the version of OpenShift that it belongs to. It is also the label of the
	// Nodes that run it, unless NoVersionLabel is asked for; there the original needs help from others.
	VersionKey = prefix + "release-image-version"
	// RoleLabel is the label of the MachineConfigs by which pools select them.
	RoleLabel = prefix + "role"

	annotationGeneratedBy = prefix + "generated-by-controller-version"
)

// The values of AnnotationState.
const (
	StateDone           = "Done"
	StateWorking        = "Working"
	StateDegraded       = "Degraded"
	StateUnreconcilable = "Unreconcilable"
)

// What this package reads and writes beyond the original.
const (
	// AnnotationDegrade on a Node makes it fail with the given reason when it applies a MachineConfig, for as long as the annotation stays.
	AnnotationDegrade = "machineconfig.sandbox/degrade"
	// AnnotationHang on a Node names the Step in which it stays for as long as the annotation does; "true" is the reboot.
	AnnotationHang = "machineconfig.sandbox/hang"
	// AnnotationStep on a Node says in which Step of an update it is and since when, so that a restart goes on from there.
	AnnotationStep = "machineconfig.sandbox/step"
	// AnnotationPhase on the ClusterVersion is the Phase of the cluster's update.
	AnnotationPhase = "machineconfig.sandbox/phase"
)

// The Nodes that kwok plays have the first annotation; the second one, with the value "false", has the sandbox's kwok report them NotReady.
const (
	annotationKwok      = "kwok.x-k8s.io/node"
	annotationKwokReady = "sandbox.drover.io/ready"
)

// drainRequest and uncordonRequest are the values of the two drain annotations.
func drainRequest(config string) string    { return "drain-" + config }
func uncordonRequest(config string) string { return "uncordon-" + config }
