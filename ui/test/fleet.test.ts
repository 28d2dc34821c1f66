import { describe, expect, it } from "vitest";

import { countsOf, groupingOf, groupsOf, matching, worstFirst } from "../src/fleet";
import type { Cell } from "../src/types";

const cell = (name: string, rest: Partial<Cell> = {}): Cell => ({ name, state: "InSync", ...rest });

describe("matching", () => {
  const node = cell("worker-1", { zone: "eu-1a", nodeGroup: "web", machineSet: "set-a", reason: "Draining", version: "v1.35.1", notReady: true });
  it.each([
    ["", true],
    ["worker", true],
    ["WORKER 1a", true],
    ["worker-2", false],
    ["zone:eu-1a", true],
    ["zone:web", false],
    ["group:web set:set-a", true],
    ["reason:drain", true],
    ["group=web zone=EU-1a", true],
    ["group=we", false],
    ["machine=", true],
    ["constructor=web", false],
    ["is:notready", true],
    ["is:ready", false],
    ["is:worker", true],
    ["unknown:web", false],
    ["<b>", false],
    ["constructor:web", false],
    ["__proto__:web", false],
    ["tostring:web hasownproperty:x", false],
  ])("%s: %s", (query, want) => {
    expect(matching([node], query)).toEqual(want ? [node] : []);
  });
});

describe("groupingOf", () => {
  const [plain, inSet, inGroup] = [cell("a"), cell("b", { machineSet: "set" }), cell("c", { machineSet: "set", nodeGroup: "web" })];
  it("is MachineSet where there are MachineSets and no NodeGroups", () => {
    expect(groupingOf([plain, inSet], "nodeGroup")).toBe("machineSet");
    expect(groupingOf([plain, inSet, inGroup], "nodeGroup")).toBe("nodeGroup");
    expect(groupingOf([plain], "nodeGroup")).toBe("nodeGroup");
    expect(groupingOf([inSet], "zone")).toBe("zone");
  });
});

describe("groupsOf", () => {
  it("puts nodes without a group last, and numbers in order", () => {
    const groups = groupsOf([cell("a"), cell("b", { zone: "z10" }), cell("c", { zone: "z9" })], "zone");
    expect(groups.map((group) => group.label)).toEqual(["z9", "z10", "No zone"]);
  });
  it("keeps a name that is one of an object's own", () => {
    expect(groupsOf([cell("a", { nodeGroup: "constructor" })], "nodeGroup").map((group) => group.key)).toEqual(["constructor"]);
  });
  it("has one group for all", () => {
    expect(groupsOf([cell("a"), cell("b", { nodeGroup: "web" })], "none")).toHaveLength(1);
  });
});

describe("countsOf and worstFirst", () => {
  const cells = [cell("b"), cell("a"), cell("c", { state: "Blocked" })];
  it("have the worst first", () => {
    expect([...countsOf(cells)]).toEqual([["Blocked", 1], ["InSync", 2]]);
    expect([...cells].sort(worstFirst).map((each) => each.name)).toEqual(["c", "a", "b"]);
  });
});
