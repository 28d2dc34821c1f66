import type { Route } from "./route";
import { urgencies } from "./states";
import type { Wait } from "./types";

function rank(wait: Wait): number {
  const at = urgencies.findIndex((info) => info.urgency === wait.urgency);
  return at < 0 ? urgencies.length : at;
}

// worstFirst puts the worst first, and of those that are as bad the oldest, as the plugin does.
export function worstFirst(a: Wait, b: Wait): number {
  const [since, other] = [a.since ?? "~", b.since ?? "~"];
  return rank(a) - rank(b) || (since < other ? -1 : since > other ? 1 : 0) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

// isShown reports whether a wait matches the filters of a route.
export function isShown(wait: Wait, route: Route): boolean {
  if (route.urgencies.length > 0 && !route.urgencies.includes(wait.urgency)) {
    return false;
  }
  if (route.kinds.length > 0 && !route.kinds.includes(wait.kind)) {
    return false;
  }
  const text = [wait.kind, wait.namespace, wait.name, wait.node, wait.reason, wait.message, wait.capability].join(" ").toLowerCase();
  return route.query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// whyOf returns the message of a wait. Where the condition has none, its reason has to do.
export function whyOf({ condition, reason, message, kind }: Wait): string {
  if (message) {
    return message;
  }
  const words = reason.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return condition ? `The ${kind} reports ${condition} as ${words}, without a message.` : `The ${kind} waits: ${words}.`;
}

export interface WaitGroup {
  key: string;
  first: Wait;
  waits: Wait[];
}

// together is from how many waits on those with the same kind and reason are shown as one.
const together = 4;

// groupsOf puts waits of the same kind and reason together if there are many: a hundred Machines that wait for the same are one thing to look at.
export function groupsOf(waits: readonly Wait[]): WaitGroup[] {
  const byReason = new Map<string, Wait[]>();
  const keyOf = (wait: Wait) => [wait.urgency, wait.kind, wait.condition, wait.reason].join("/");
  for (const wait of waits) {
    const list = byReason.get(keyOf(wait));
    if (list) {
      list.push(wait);
    } else {
      byReason.set(keyOf(wait), [wait]);
    }
  }
  const groups: WaitGroup[] = [];
  for (const wait of waits) {
    const key = keyOf(wait);
    const list = byReason.get(key)!;
    if (list.length < together) {
      groups.push({ key: wait.id, first: wait, waits: [wait] });
    } else if (list[0] === wait) {
      groups.push({ key, first: wait, waits: list });
    }
  }
  return groups;
}
