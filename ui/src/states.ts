import type { NodeState, Urgency } from "./types";

export interface StateInfo {
  state: NodeState;
  label: string;
  // letter tells the states apart without their colours.
  letter: string;
  meaning: string;
}

// The states, the worst first.
export const states: readonly StateInfo[] = [
  { state: "Blocked", label: "Blocked", letter: "B", meaning: "nothing continues unless a person acts" },
  { state: "Unhealthy", label: "Unhealthy", letter: "!", meaning: "the Node is not Ready, or its Machine has failed" },
  { state: "InMaintenance", label: "In maintenance", letter: "M", meaning: "a NodeMaintenance names the node" },
  { state: "Upgrading", label: "Upgrading", letter: "U", meaning: "a gated upgrade or the machine-config-operator works on the node" },
  { state: "Disrupted", label: "Disrupted by others", letter: "D", meaning: "another program or a user has cordoned, tainted or leased the node" },
  { state: "RollingOut", label: "Rolling out", letter: "R", meaning: "the node is still to get what is declared, or its Machine is being replaced" },
  { state: "Paused", label: "Paused", letter: "P", meaning: "a user has paused what is declared for the node" },
  { state: "InSync", label: "In sync", letter: "✓", meaning: "the node has what is declared for it" },
  { state: "Unmanaged", label: "Unmanaged", letter: "–", meaning: "neither a NodeGroup nor a MachineSet has the node" },
  { state: "Loading", label: "Being read", letter: "·", meaning: "the kinds that decide about the state have not been read yet" },
];

const byState = new Map(states.map((info) => [info.state, info]));

// infoOf returns what is known of a state. A newer plugin may have others.
export function infoOf(state: NodeState): StateInfo {
  return byState.get(state) ?? { state, label: state, letter: "?", meaning: "" };
}

// rankOf returns how bad a state is: zero is the worst.
export function rankOf(state: NodeState): number {
  const rank = states.findIndex((info) => info.state === state);
  return rank < 0 ? states.length : rank;
}

export interface UrgencyInfo {
  urgency: Urgency;
  label: string;
  letter: string;
  meaning: string;
}

export const urgencies: readonly UrgencyInfo[] = [
  { urgency: "Stopped", label: "Needs a person", letter: "!", meaning: "nothing continues unless a person acts" },
  { urgency: "Waiting", label: "Waiting", letter: "…", meaning: "something in the cluster, or the time, ends the wait" },
  { urgency: "Suspended", label: "Paused", letter: "P", meaning: "a user wants it so" },
];

export function urgencyOf(urgency: Urgency): UrgencyInfo {
  return urgencies.find((info) => info.urgency === urgency) ?? { urgency, label: urgency, letter: "?", meaning: "" };
}
