import { describe, expect, it } from "vitest";

import { byUrgency, daysOf, isShown, openingOf, partsOf, slotsOf, spansOf, wavesOf } from "../src/progress";
import { home } from "../src/route";
import { moment, wait } from "../src/time";
import type { Activity, Budget } from "../src/types";

const activity = (id: string, rest: Partial<Activity> = {}): Activity => ({
  id, type: "RollOut", kind: "NodeGroup", name: id, resource: `nodegroups/${id}`, state: "Running", unit: "nodes", total: 10, done: 0, waiting: 0, failed: 0,
  ...rest,
});

const budget = (rest: Partial<Budget> = {}): Budget => ({
  nodeGroup: "web", maxUnavailable: "10%", limit: 3, nodes: 30, unavailable: 0, holders: [], others: 0, open: true, ...rest,
});

describe("byUrgency", () => {
  it("has what needs a person first, and what is done last", () => {
    const all = [activity("done", { state: "Done" }), activity("b"), activity("a"), activity("stopped", { state: "Stopped" })];
    expect(all.sort(byUrgency).map((each) => each.id)).toEqual(["stopped", "a", "b", "done"]);
  });
});

describe("isShown", () => {
  it.each([
    [{}, true],
    [{ types: ["Drain"] }, false],
    [{ types: ["Drain", "RollOut"] }, true],
    [{ query: "web NODEGROUP" }, true],
    [{ query: "api" }, false],
  ])("%o: %s", (route, want) => {
    expect(isShown(activity("web"), { ...home, ...route })).toBe(want);
  });
  it("shows what is done when it is asked to", () => {
    const done = activity("web", { state: "Done" });
    expect([isShown(done, home), isShown(done, { ...home, finished: true })]).toEqual([false, true]);
  });
});

describe("partsOf", () => {
  const counts = (rest: Partial<Activity>) => partsOf(activity("a", rest)).map((part) => `${part.name} ${part.count}`);
  it("has what the whole lacks in progress", () => {
    expect(counts({ done: 4, failed: 1, waiting: 3 })).toEqual(["done 4", "failed 1", "running 2", "waiting 3"]);
  });
  it("is never more than the whole", () => {
    expect(counts({ done: 40, failed: 5, waiting: -3 })).toEqual(["done 10"]);
    expect(counts({ total: 0 })).toEqual([]);
  });
});

describe("wavesOf", () => {
  it("has the waves before, the current one and those after", () => {
    expect(wavesOf(activity("a", { wave: 2, waves: 3 }))).toEqual(["finished", "current", "coming"]);
  });
  it("has none for one wave, and for too many", () => {
    expect([wavesOf(activity("a", { wave: 1, waves: 1 })), wavesOf(activity("a", { wave: 1, waves: 5000 }))]).toEqual([[], []]);
  });
});

describe("openingOf", () => {
  const at = (hour: number) => new Date(Date.UTC(2026, 0, 1, hour)).toISOString();
  const open = [{ from: at(2), to: at(4) }, { from: at(4), to: at(6) }, { from: at(8), to: at(10) }];
  it.each([
    ["before", 1, { open: false, changes: at(2) }],
    ["in two that follow each other", 3, { open: true, changes: at(6) }],
    ["between", 7, { open: false, changes: at(8) }],
    ["in the last one, up to the end of the calendar", 9, { open: true }],
    ["after", 10, { open: false }],
  ])("%s", (_, hour, want) => {
    expect(openingOf(open, Date.parse(at(hour)), at(10))).toEqual(want);
  });
});

describe("slotsOf", () => {
  it("has who holds the budget, and what is free", () => {
    const holders = ["maintenance", "maintenance", "upgrade"].map((capability, place) => ({ node: `node-${place}`, capability }));
    const { parts, whole } = slotsOf(budget({ limit: 5, unavailable: 4, holders, others: 1 }));
    expect(parts.map((part) => `${part.label} ${part.count}`)).toEqual(["maintenance 2", "upgrade 1", "without Drover 1", "free 1"]);
    expect(whole).toBe(5);
  });
  it("has a bar for a limit of zero, and for more than the limit", () => {
    expect(slotsOf(budget({ limit: 0 }))).toEqual({ parts: [], whole: 1 });
    expect(slotsOf(budget({ unavailable: 7, others: 7 })).whole).toBe(7);
  });
});

describe("spansOf", () => {
  const from = "2026-09-01T00:00:00Z";
  const to = "2026-09-11T00:00:00Z";
  it("cuts what is outside of the strip", () => {
    const intervals = [
      { from: "2026-08-01T00:00:00Z", to: "2026-09-02T00:00:00Z" },
      { from: "2026-09-06T00:00:00Z", to: "2026-09-07T00:00:00Z" },
      { from: "2026-10-01T00:00:00Z", to: "2026-10-02T00:00:00Z" },
      { from: "never", to: "always" },
    ];
    expect(spansOf(intervals, from, to).map((span) => [span.left, span.width])).toEqual([[0, 10], [50, 10]]);
  });
  it("has nothing on a strip without a length", () => {
    expect(spansOf([{ from, to }], from, from)).toEqual([]);
    expect(daysOf("nonsense", to)).toEqual([]);
  });
  it("has as many midnights as days", () => {
    expect(daysOf("2026-09-01T12:00:00Z", "2026-09-08T12:00:00Z")).toHaveLength(7);
  });
});

describe("wait and moment", () => {
  const now = Date.parse("2026-09-03T12:00:00Z");
  it.each([
    ["2026-09-03T14:15:00Z", "2 h 15 min"],
    ["2026-09-03T11:00:00Z", ""],
    ["nonsense", ""],
    [undefined, ""],
  ])("%s: %s", (until, want) => {
    expect(wait(until, now)).toBe(want);
  });
  it("leaves out today", () => {
    expect(moment("2026-09-03T12:30:00Z", now)).not.toMatch(/Sep/);
    expect(moment("2026-09-05T12:30:00Z", now)).toMatch(/Sep/);
    expect(moment("nonsense", now)).toBe("");
  });
});
