// The documents of /api. internal/cli/ui and internal/cli/ui/model declare them.

export type NodeState =
  | "Blocked" | "Unhealthy" | "InMaintenance" | "Upgrading" | "Disrupted" | "RollingOut" | "Paused" | "InSync" | "Unmanaged";

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
  ready: boolean;
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
  notes?: string[];
}
