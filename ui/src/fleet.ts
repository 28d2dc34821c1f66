import type { Grouping } from "./route";
import { rankOf } from "./states";
import type { Cell, NodeState } from "./types";

export interface Group {
  key: string;
  label: string;
  cells: Cell[];
  counts: Map<NodeState, number>;
}

// matching returns the nodes that match all words of a query. A word may name a field whose value has a text, as in zone:a, or is it, as in group=web.
export function matching(cells: readonly Cell[], query: string): readonly Cell[] {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return words.length === 0 ? cells : cells.filter((cell) => words.every((word) => matchesWord(cell, word)));
}

const fields: Record<string, (cell: Cell) => string | undefined> = {
  name: (cell) => cell.name,
  group: (cell) => cell.nodeGroup,
  set: (cell) => cell.machineSet,
  machine: (cell) => cell.machine,
  zone: (cell) => cell.zone,
  version: (cell) => cell.version,
  reason: (cell) => cell.reason,
  is: (cell) => [cell.notReady ? "notready" : "ready", cell.controlPlane ? "controlplane" : "worker"].join(" "),
};

function matchesWord(cell: Cell, word: string): boolean {
  const at = word.search(/[:=]/);
  const name = word.slice(0, Math.max(0, at));
  // An object has a constructor besides its own fields, and anybody can write an address with a query.
  const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (field) {
    const value = word.slice(at + 1);
    const has = (field(cell) ?? "").toLowerCase();
    if (name === "is") {
      return has.split(" ").includes(value);
    }
    return word[at] === "=" ? has === value : has.includes(value);
  }
  return ["name", "group", "set", "zone", "version", "reason"].some((name) => (fields[name]!(cell) ?? "").toLowerCase().includes(word));
}

const none: Record<Grouping, string> = {
  nodeGroup: "No NodeGroup",
  machineSet: "No MachineSet",
  zone: "No zone",
  version: "Unknown version",
  none: "All nodes",
};

// groupingOf returns by what nodes are grouped: by MachineSet where there are no NodeGroups.
export function groupingOf(cells: readonly Cell[], wanted: Grouping): Grouping {
  const sets = wanted === "nodeGroup" && cells.some((cell) => cell.machineSet) && !cells.some((cell) => cell.nodeGroup);
  return sets ? "machineSet" : wanted;
}

// groupsOf returns the groups of nodes, those without a group last. Nodes keep their order.
export function groupsOf(cells: readonly Cell[], grouping: Grouping): Group[] {
  const groups = new Map<string, Group>();
  for (const cell of cells) {
    const key = grouping === "none" ? "" : (cell[grouping] ?? "");
    let group = groups.get(key);
    if (!group) {
      group = { key, label: key === "" ? none[grouping] : key, cells: [], counts: new Map() };
      groups.set(key, group);
    }
    group.cells.push(cell);
    group.counts.set(cell.state, (group.counts.get(cell.state) ?? 0) + 1);
  }
  return [...groups.values()].sort((a, b) =>
    a.key === "" ? 1 : b.key === "" ? -1 : a.key.localeCompare(b.key, "en", { numeric: true }),
  );
}

// countsOf returns how many nodes have each state, the worst first.
export function countsOf(cells: readonly Cell[]): Map<NodeState, number> {
  const counts = new Map<NodeState, number>();
  for (const cell of cells) {
    counts.set(cell.state, (counts.get(cell.state) ?? 0) + 1);
  }
  return new Map([...counts].sort(([a], [b]) => rankOf(a) - rankOf(b)));
}

// worstFirst compares nodes for a list.
export function worstFirst(a: Cell, b: Cell): number {
  return rankOf(a.state) - rankOf(b.state) || (a.name < b.name ? -1 : 1);
}
