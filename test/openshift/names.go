package openshift

// The pools that every cluster has. All others are custom pools.
const (
	PoolMaster = "master"
	PoolWorker = "worker"
)

// ClusterVersionName is the name of the only ClusterVersion.
const ClusterVersionName = "version"

const prefix = "machineconfiguration.openshift.io/"

// What the machine-config-operator writes on Nodes.
const (
	// AnnotationCurrentConfig names the rendered MachineConfig that the Node runs.
	AnnotationCurrentConfig = prefix + "currentConfig"
	// AnnotationDesiredConfig names the rendered MachineConfig that the Node should run.
	AnnotationDesiredConfig = prefix + "desiredConfig"
	// AnnotationState is one of the states below.
	AnnotationState = prefix + "state"
	// AnnotationReason says why the state is Degraded.
	AnnotationReason = prefix + "reason"
	// AnnotationDesiredDrain is what the Node asks of the drain: drain-CONFIG or uncordon-CONFIG.
	AnnotationDesiredDrain = prefix + "desiredDrain"
	// AnnotationLastAppliedDrain is the last value of AnnotationDesiredDrain that was carried out.
	AnnotationLastAppliedDrain = prefix + "lastAppliedDrain"
	// VersionKey is an annotation of a rendered MachineConfig: the version of OpenShift that it belongs to. The simulator also writes it as a
	// label on the Nodes that run it, unless Options.NoVersionLabel is set; on a real cluster another component has to.
	VersionKey = prefix + "release-image-version"
	// RoleLabel is a label of MachineConfigs. Pools select MachineConfigs by it.
	RoleLabel = prefix + "role"
)

// The values of AnnotationState.
const (
	StateDone           = "Done"
	StateWorking        = "Working"
	StateDegraded       = "Degraded"
	StateUnreconcilable = "Unreconcilable"
)

// What the simulator reads and writes beyond that.
const (
	// AnnotationDegrade on a Node makes it fail with the given reason when it applies a MachineConfig, for as long as the annotation stays.
	AnnotationDegrade = "machineconfig.sandbox/degrade"
	// AnnotationHang on a Node names a Step. The Node stays in this Step as long as the annotation exists; "true" means the reboot.
	AnnotationHang = "machineconfig.sandbox/hang"
	// AnnotationStep on a Node is the Node's current Step of an update and when it began, so that a restart continues from there.
	AnnotationStep = "machineconfig.sandbox/step"
	// AnnotationPhase on the ClusterVersion is the Phase of the cluster's update.
	AnnotationPhase = "machineconfig.sandbox/phase"
)
