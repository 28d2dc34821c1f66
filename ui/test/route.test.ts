import { describe, expect, it } from "vitest";

import { format, home, parse, toggle, tokenOf, type Route } from "../src/route";

describe("parse and format", () => {
  const routes: Route[] = [
    home,
    { ...home, group: "zone", states: ["Blocked", "Unhealthy"], query: "zone:a b&c=<d>", selected: "worker-1", list: true },
    { ...home, view: "waits", urgencies: ["Stopped"], kinds: ["Machine"], query: "é" },
    { ...home, view: "progress", types: ["Drain", "RollOut"], finished: true, query: "web" },
    { ...home, view: "plan" },
    { ...home, view: "node", node: "worker-1" },
  ];
  it.each(routes)("%o is the same again", (route) => {
    expect(parse(format(route).replace(/^\.\//, ""))).toEqual(route);
  });
  it("does not know what others make up", () => {
    expect(parse("?view=admin&group=constructor&state=<b>,Blocked&q=" + "x".repeat(1000))).toEqual({ ...home, states: ["Blocked"] });
    expect(parse("?view=node")).toEqual(home);
  });
  it("leaves out what is as usual", () => {
    expect(format(home)).toBe("./");
  });
});

describe("toggle", () => {
  it("adds and takes away", () => {
    expect(toggle(["a"], "b")).toEqual(["a", "b"]);
    expect(toggle(["a", "b"], "a")).toEqual(["b"]);
  });
});

describe("tokenOf", () => {
  it.each([["#token=abc", "abc"], ["", ""], ["#other=1", ""]])("%s", (hash, token) => {
    expect(tokenOf(hash)).toBe(token);
  });
});
