import type { Route } from "./route";
import type { Activity, Budget, Interval } from "./types";

export interface ActivityStateInfo {
  state: Activity["state"];
  label: string;
  letter: string;
}

// The states of activities, the worst first.
export const activityStates: readonly ActivityStateInfo[] = [
  { state: "Stopped", label: "Needs a person", letter: "!" },
  { state: "Waiting", label: "Waiting", letter: "…" },
  { state: "Running", label: "Running", letter: "▸" },
  { state: "Suspended", label: "Paused", letter: "P" },
  { state: "Done", label: "Done", letter: "✓" },
];

export const activityTypes: readonly { type: Activity["type"]; label: string; plural: string }[] = [
  { type: "RollOut", label: "Roll-out", plural: "Roll-outs" },
  { type: "Replacement", label: "Replacement", plural: "Replacements" },
  { type: "Drain", label: "Drain", plural: "Drains" },
  { type: "Upgrade", label: "Upgrade", plural: "Upgrades" },
];

function rank(activity: Activity): number {
  const at = activityStates.findIndex((info) => info.state === activity.state);
  return at < 0 ? activityStates.length : at;
}

// byUrgency puts what needs a person first, and what is done last.
export function byUrgency(a: Activity, b: Activity): number {
  return rank(a) - rank(b) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

// isShown reports whether an activity matches the filters of a route.
export function isShown(activity: Activity, route: Route): boolean {
  if (activity.state === "Done" && !route.finished) {
    return false;
  }
  if (route.types.length > 0 && !route.types.includes(activity.type)) {
    return false;
  }
  const text = [activity.kind, activity.namespace, activity.name, activity.node, activity.message].join(" ").toLowerCase();
  return route.query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// Part is a part of a bar.
export interface Part {
  name: string;
  label: string;
  count: number;
}

// partsOf returns the parts of an activity's bar, without empty ones. They are never more than the whole.
export function partsOf({ total, done, waiting, failed }: Activity): Part[] {
  const parts: Part[] = [];
  let left = Math.max(0, total);
  const add = (name: string, label: string, wanted: number) => {
    const count = Math.min(left, Math.max(0, wanted));
    left -= count;
    if (count > 0) {
      parts.push({ name, label, count });
    }
  };
  add("done", "done", done);
  add("failed", "failed", failed);
  add("running", "in progress", total - done - failed - waiting);
  add("waiting", "waiting", waiting);
  return parts;
}

// wavesOf returns how each wave is. There are none if they are too many to draw.
export function wavesOf({ wave = 0, waves = 0, state }: Activity): ("finished" | "current" | "coming")[] {
  if (waves < 2 || waves > 60) {
    return [];
  }
  return Array.from({ length: waves }, (_, place) => {
    if (state === "Done" || place + 1 < wave) {
      return "finished";
    }
    return place + 1 === wave ? "current" : "coming";
  });
}

// slotsOf returns the parts of a budget's bar and how many nodes the whole bar is: at least the limit, and all that are unavailable.
export function slotsOf(budget: Budget): { parts: Part[]; whole: number } {
  const byCapability = new Map<string, number>();
  for (const holder of budget.holders) {
    byCapability.set(holder.capability, (byCapability.get(holder.capability) ?? 0) + 1);
  }
  const parts = [...byCapability].map(([capability, count]) => ({ name: "held", label: capability, count }));
  if (budget.omitted) {
    parts.push({ name: "held", label: "more", count: budget.omitted });
  }
  if (budget.others > 0) {
    parts.push({ name: "others", label: "without Drover", count: budget.others });
  }
  const used = parts.reduce((sum, part) => sum + part.count, 0);
  const free = Math.max(0, (budget.limit ?? 0) - Math.max(used, budget.unavailable));
  if (free > 0) {
    parts.push({ name: "free", label: "free", count: free });
  }
  return { parts, whole: Math.max(1, used + free) };
}

// Span is an interval on a strip, in percent of the strip's length.
export interface Span {
  left: number;
  width: number;
  interval: Interval;
}

// spansOf returns where intervals are on a strip. Those outside of it, and those that are not times, are left out.
export function spansOf(intervals: readonly Interval[], from: string, to: string): Span[] {
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  const length = end - begin;
  return intervals.flatMap((interval) => {
    const first = Math.max(begin, Date.parse(interval.from));
    const last = Math.min(end, Date.parse(interval.to));
    if (!(length > 0) || !(last > first)) {
      return [];
    }
    return [{ left: ((first - begin) / length) * 100, width: ((last - first) / length) * 100, interval }];
  });
}

// openingOf returns whether a time is in one of some intervals, and when that changes; no change if it is not before the end of the calendar.
export function openingOf(open: readonly Interval[], now: number, to: string): { open: boolean; changes?: string } {
  let changes: string | undefined;
  for (const { from, to: end } of open) {
    if (Date.parse(from) <= (changes === undefined ? now : Date.parse(changes)) && Date.parse(end) > now) {
      changes = changes === undefined || Date.parse(end) > Date.parse(changes) ? end : changes;
    } else if (changes === undefined && Date.parse(from) > now) {
      return { open: false, changes: from };
    }
  }
  if (changes === undefined) {
    return { open: false };
  }
  return Date.parse(changes) < Date.parse(to) ? { open: true, changes } : { open: true };
}

// daysOf returns the midnights of a strip, where the browser is.
export function daysOf(from: string, to: string): { left: number; at: Date }[] {
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  const days: { left: number; at: Date }[] = [];
  const at = new Date(begin);
  at.setHours(0, 0, 0, 0);
  for (let day = 0; day < 40 && begin < end; day++) {
    at.setDate(at.getDate() + 1);
    if (at.getTime() >= end) {
      break;
    }
    days.push({ left: ((at.getTime() - begin) / (end - begin)) * 100, at: new Date(at) });
  }
  return days;
}
