// The documents of /api. internal/cli/ui and internal/cli/ui/model declare them.

export type NodeState =
  | "Blocked" | "Unhealthy" | "InMaintenance" | "Upgrading" | "Disrupted" | "RollingOut" | "Paused" | "InSync" | "Unmanaged"
  // Loading: the kinds that decide about the state have not been read yet. The first fleet event after a start has such nodes.
  | "Loading";

export interface Cell {
  name: string;
  state: NodeState;
  reason?: string;
  message?: string;
  since?: string;
  nodeGroup?: string;
  machineSet?: string;
  machine?: string;
  zone?: string;
  version?: string;
  notReady?: boolean;
  controlPlane?: boolean;
}

export type Urgency = "Stopped" | "Waiting" | "Suspended";

export interface Wait {
  id: string;
  urgency: Urgency;
  capability: string;
  kind: string;
  namespace?: string;
  name: string;
  resource: string;
  node?: string;
  since?: string;
  condition?: string;
  reason: string;
  message?: string;
  action?: string;
  runbook?: string;
}

export interface Changes<T> {
  full?: boolean;
  set: T[];
  gone?: string[];
  omitted?: number;
}

export type Availability = "Loading" | "Live" | "NotServed" | "Forbidden" | "Failing";

export interface Source {
  resource: string;
  availability: Availability;
  namespace?: string;
  message?: string;
  objects: number;
  incomplete?: boolean;
}

export interface Cluster {
  // ready says that there are nodes to show, complete that everything has been read that decides about their states. Until then nodes may have the state
  // Loading, and the stream has neither waits nor progress.
  ready: boolean;
  complete: boolean;
  // write says that POST /api/actions is served.
  write?: boolean;
  sources: Source[] | null;
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  since?: string;
}

export interface Entry {
  kind: string;
  key: string;
  value?: string;
  owner: string;
  machineSet?: string;
  nodeGroup?: string;
  generation?: number;
  managers?: { name: string; operation?: string; time?: string }[];
  standing: string;
  declared?: string;
  declaredBy?: string;
}

export interface NodePage {
  cell?: Cell;
  created: string;
  explanation: { name: string; machine?: string; machineSet?: string; nodeGroup?: string; state?: string; reason?: string; entries: Entry[]; notes?: string[] };
  conditions: Condition[];
  machineConditions?: Condition[];
  lease?: { holder: string; capability?: string; object?: string; acquired?: string; expires?: string; valid: boolean };
  waits: Wait[];
  events: { type: string; reason: string; message: string; source?: string; count: number; last?: string }[];
  drain?: DrainStatus;
  timeline: Moment[];
  notes?: string[];
}

// DrainStatus is the document of `kubectl drover drain-status NODE -o json`. Pods are those that still have to leave, or would have to.
export interface DrainStatus {
  node: string;
  unschedulable?: boolean;
  maintenance?: string;
  phase?: string;
  reason?: string;
  cordoned?: string;
  deadline?: string;
  message?: string;
  pods: { namespace: string; name: string; reason: string; detail?: string; until?: string }[];
  evict: string[];
  blocked: { reason: string; detail?: string; pods: string[] }[];
  budgets: { name: string; needs: number; has: number; allowed: number; here: number }[];
  total: number;
  alone?: string;
  mayReturn?: string[];
}

export interface Moment {
  at: string;
  until?: string;
  continues?: boolean;
  type: "Event" | "Condition" | "Disruption" | "Creation";
  warning?: boolean;
  // object is Kind/name.
  object: string;
  reason: string;
  message?: string;
  source?: string;
  count?: number;
}

// Progress is GET /api/progress. The event "progress" of the stream has its changes.
export interface Progress {
  items: Activity[];
  omitted?: number;
  budgets: Budget[];
  omittedBudgets?: number;
  calendar: Calendar;
}

// ProgressChanges is the event "progress". A part that is not there has not changed.
export interface ProgressChanges {
  items?: Changes<Activity>;
  budgets?: Changes<Budget>;
  calendar?: Calendar;
}

export interface Activity {
  id: string;
  type: "RollOut" | "Replacement" | "Drain" | "Upgrade";
  kind: string;
  namespace?: string;
  name: string;
  resource: string;
  node?: string;
  state: "Stopped" | "Waiting" | "Running" | "Suspended" | "Done";
  message?: string;
  unit: "nodes" | "machines" | "percent";
  // What total lacks in done, waiting and failed is in progress.
  total: number;
  done: number;
  waiting: number;
  failed: number;
  wave?: number;
  waves?: number;
  since?: string;
  perHour?: number;
  expectedEnd?: string;
  maintenance?: {
    node: string; object: string; phase?: string; progress: number; left: number; drained: boolean; reason?: string; status?: string; waitsFor?: string;
    created: string; ending?: boolean;
  };
  upgrade?: {
    namespace: string; name: string; phase?: string; version?: string; done: number; failed: number; total: number; message?: string; created: string;
    started?: string; finished?: string;
    nodes?: { name: string; phase: string; job?: string; message?: string; started?: string; released?: string; finished?: string }[];
  };
}

// Budget has its NodeGroup's name as its key.
export interface Budget {
  nodeGroup: string;
  maxUnavailable: string;
  limit?: number;
  nodes: number;
  unavailable: number;
  holders: { node: string; capability: string; object?: string; since?: string }[];
  omitted?: number;
  others: number;
  open: boolean;
  changes?: string;
  closed?: string;
}

export interface Interval {
  from: string;
  to: string;
  reason?: string;
}

export interface Calendar {
  from: string;
  to: string;
  rows: {
    kind: string; namespace?: string; name: string; error?: string;
    // open are the intervals in which disruptions may begin. until is where they end to be known, if there are too many.
    open: Interval[]; until?: string; freezes?: Interval[];
  }[];
  omitted?: number;
}

// PlanPreview is the answer to POST /api/plan. The body of the request is a manifest in YAML or JSON, of at most 1 MiB, with the Content-Type
// application/yaml. 422 has why it cannot be planned, as text, 413 that it is too long, 429 that other plans are being made.
export interface PlanPreview {
  command: string;
  plan: PlanList | NodeGroupPlanList;
  changes: boolean;
  warnings: string[];
}

export interface PlanList {
  kind: "PlanList";
  items: MachineSetPlan[];
  nodeGroups?: NodeGroupPlan[];
  notes?: string[];
  summary: PlanSummary;
}

export interface NodeGroupPlanList {
  kind: "NodeGroupPlanList";
  items: NodeGroupPlan[];
}

export interface PlanSummary {
  machines: number;
  nodes: number;
  synced: number;
  pending: number;
  conflict: number;
  refused: number;
  held: number;
  paused: number;
  released: number;
  toWrite: number;
  machineWrites: number;
  nodeWrites: number;
  toReplace?: number;
}

export interface PlanProblem {
  kind: string;
  key: string;
  reason: string;
  message: string;
}

// PlanGroup is nodes with the same changes. A change has the value before (from) and after (to).
export interface PlanGroup {
  state: string;
  reason?: string;
  drift?: boolean;
  released?: boolean;
  releaseDelay?: string;
  nodes: string[];
  machines?: string[];
  changes: { operation: "add" | "change" | "remove" | "record" | "forget"; object: "Machine" | "Node"; kind: string; key: string; from?: string; to?: string }[];
  problems?: PlanProblem[];
}

export interface ReplacementPlan {
  nodeGroup: string;
  machines: string[];
  maxSurge: number;
  maxInFlight: number;
  deleting?: number;
  excluded?: number;
  suspended?: boolean;
  held?: string;
}

export interface MachineSetPlan {
  namespace?: string;
  name?: string;
  generation?: number;
  policy?: string;
  paused: boolean;
  problems?: PlanProblem[];
  summary: PlanSummary;
  groups: PlanGroup[];
  replacement?: ReplacementPlan;
}

export interface NodeGroupPlan {
  name: string;
  generation?: number;
  suspended?: boolean;
  dryRun?: boolean;
  joining?: string[];
  leaving?: string[];
  problems?: PlanProblem[];
  notes?: string[];
  waves: { nodes: string[]; toWrite: number }[];
  wave: number;
  changes: PlanGroup[];
  disruption?: { maxUnavailable: string; limit: number; expected: number; unavailable: number; open: boolean; changes?: string; closed?: string };
  labelUses?: { label: string; nodes: string[]; pods?: string[]; volumes?: string[]; confirm?: boolean }[];
  guards?: {
    node: string; taints: string[]; atOnce?: boolean; held?: string; pods: number;
    leaving?: { reason: string; detail?: string; count: number; pods: string[] }[];
    deleted?: string[]; budgets?: DrainStatus["budgets"]; lostPods: number; lost?: string[];
  }[];
  noExecute?: { atOnce?: boolean; timeout?: string; pods: number; blocked: number; lostPods: number };
  replacement?: ReplacementPlan;
  autoscaledSets?: { machineSets: string[]; labels?: string[]; taints?: string[] }[];
  summary: PlanSummary;
}

// Action is the body of POST /api/actions, with the Content-Type application/json; with ?dryRun=true the API server only checks. At most 200 targets.
// 403 without --write, 400 for an action that is not valid, as text.
export interface Action {
  action: "pause" | "resume" | "startMaintenance" | "endMaintenance";
  // Names of nodes for a maintenance; nodegroup/NAME, machineset/NAME, machine/NAME or node/NAME for pause and resume.
  targets: string[];
  // Of MachineSets and Machines.
  namespace?: string;
  reason?: string;
  deadline?: string;
  force?: boolean;
}

// ActionResult has the status 200 also if targets have failed.
export interface ActionResult {
  command: string;
  dryRun: boolean;
  output: string[];
  errors: string[];
}
