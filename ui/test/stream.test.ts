import { describe, expect, it } from "vitest";

import { LiveList } from "../src/livelist";
import { EventParser } from "../src/sse";

describe("EventParser", () => {
  const text = 'event: fleet\ndata: {"set":[]}\n\n: still here\n\nevent: waits\ndata: {}\n\n';
  it("reads events in whatever pieces they come", () => {
    for (const length of [1, 2, 7, text.length]) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < text.length; at += length) {
        events.push(...parser.push(text.slice(at, at + length)));
      }
      expect(events).toEqual([
        { name: "fleet", data: '{"set":[]}' },
        { name: "waits", data: "{}" },
      ]);
    }
  });
  it("does not keep an event without an end", () => {
    const parser = new EventParser();
    expect(() => {
      for (let piece = 0; piece < 65; piece++) {
        parser.push("x".repeat(1 << 20));
      }
    }).toThrow();
  });
});

describe("LiveList", () => {
  interface Value {
    key: string;
    rank: number;
  }
  const newList = () => {
    const list = new LiveList<Value>((value) => value.key, (a, b) => a.rank - b.rank || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    list.apply({ full: true, set: [{ key: "b", rank: 1 }, { key: "a", rank: 1 }] });
    return list;
  };
  const keys = (list: LiveList<Value>) => list.values.map((value) => value.key).join("");
  it("keeps an order", () => {
    const list = newList();
    expect(keys(list)).toBe("ab");
    list.apply({ set: [{ key: "c", rank: 0 }] });
    expect(keys(list)).toBe("cab");
    list.apply({ set: [{ key: "b", rank: 0 }], gone: ["a", "unknown"] });
    expect(keys(list)).toBe("bc");
    expect(list.get("b")?.rank).toBe(0);
    expect(list.get("a")).toBeUndefined();
  });
  it("begins again with a full list", () => {
    const list = newList();
    list.apply({ full: true, set: [{ key: "z", rank: 1 }], omitted: 3 });
    expect(keys(list)).toBe("z");
    expect(list.omitted).toBe(3);
  });
  it("takes a name that is one of an object's own", () => {
    const list = newList();
    list.apply({ set: [{ key: "__proto__", rank: 5 }] });
    expect(list.get("__proto__")?.rank).toBe(5);
  });
});
