import { describe, expect, it } from "vitest";

import { home } from "../src/route";
import { age } from "../src/time";
import type { Wait } from "../src/types";
import { groupsOf, isShown, worstFirst } from "../src/waits";

const wait = (id: string, rest: Partial<Wait> = {}): Wait => ({
  id, urgency: "Waiting", capability: "machines", kind: "Machine", name: id, resource: `machines/${id}`, reason: "AwaitingNode", ...rest,
});

describe("worstFirst", () => {
  it("has what needs a person first, then the oldest, and those of unknown age last", () => {
    const waits = [
      wait("unknown"),
      wait("new", { since: "2026-09-01T12:00:00Z" }),
      wait("old", { since: "2026-09-01T11:00:00Z" }),
      wait("paused", { urgency: "Suspended" }),
      wait("stopped", { urgency: "Stopped" }),
    ];
    expect(waits.sort(worstFirst).map((each) => each.id)).toEqual(["stopped", "old", "new", "unknown", "paused"]);
  });
});

describe("isShown", () => {
  const one = wait("m", { namespace: "ns", node: "worker-1", message: "The Pod web/0 does not leave" });
  it.each([
    [{}, true],
    [{ urgencies: ["Waiting"] }, true],
    [{ urgencies: ["Stopped"] }, false],
    [{ kinds: ["Machine", "NodeGroup"] }, true],
    [{ kinds: ["NodeGroup"] }, false],
    [{ query: "worker-1 POD" }, true],
    [{ query: "worker-2" }, false],
  ])("%o: %s", (route, want) => {
    expect(isShown(one, { ...home, ...route })).toBe(want);
  });
});

describe("groupsOf", () => {
  it("puts many waits for the same together, and leaves few alone", () => {
    const many = ["a", "b", "c", "d"].map((id) => wait(id));
    const few = ["x", "y"].map((id) => wait(id, { reason: "Provisioning" }));
    expect(groupsOf([...many, ...few]).map((group) => group.waits.length)).toEqual([4, 1, 1]);
  });
});

describe("age", () => {
  const now = Date.parse("2026-09-03T12:00:00Z");
  it.each([
    ["2026-09-03T12:00:00Z", "0 s"],
    ["2026-09-03T12:00:05Z", "0 s"],
    ["2026-09-03T11:59:18Z", "42 s"],
    ["2026-09-03T11:57:18Z", "2 min"],
    ["2026-09-03T09:45:00Z", "2 h 15 min"],
    ["2026-09-01T11:00:00Z", "2 d 1 h"],
    ["nonsense", ""],
    [undefined, ""],
  ])("%s: %s", (since, want) => {
    expect(age(since, now)).toBe(want);
  });
});
