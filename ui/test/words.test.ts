import { expect, it } from "vitest";

import { more, quantity } from "../src/words";

it("counts one of a thing", () => {
  expect([quantity(0, "node"), quantity(1, "node"), quantity(2, "node")]).toEqual(["0 nodes", "1 node", "2 nodes"]);
});

it("says how many are left only if some are left then", () => {
  expect([more(8, 3), more(8, 8), more(8, 9)]).toEqual(["Show 3 more", "Show 8 more", "Show 8 more of 9"]);
});
