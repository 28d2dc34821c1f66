import { describe, expect, it } from "vitest";

import { cellAt, layoutOf, move, placeOf, sectionAt } from "../src/layout";

// Five columns of 31 pixels; sections of 7, 1 and 12 cells.
const layout = layoutOf([7, 1, 12], 160);

describe("layoutOf", () => {
  it("finds each cell at its place, at 1 and at 20,000", () => {
    for (const counts of [[1], [7, 1, 12], [0, 3], [10_000, 10_000]]) {
      const of = layoutOf(counts, 900);
      for (let cell = 0; cell < of.count; cell++) {
        const { x, y } = placeOf(of, cell);
        expect(cellAt(of, x + 1, y + 1)).toBe(cell);
      }
    }
  });
  it("has a column in no space, and no cells in no fleet", () => {
    expect(layoutOf([3], 0).columns).toBe(1);
    expect(layoutOf([], 900)).toMatchObject({ count: 0, height: 0 });
  });
  it("makes the cells of a large fleet smaller", () => {
    expect([1, 1000, 5000, 20_000].map((count) => layoutOf([count], 900).size)).toEqual([28, 22, 18, 14]);
  });
});

describe("cellAt", () => {
  it("finds none in headings, behind the last cell and outside", () => {
    expect(cellAt(layout, 1, 1)).toBe(-1);
    expect(cellAt(layout, 2 * 31 + 1, placeOf(layout, 6).y + 1)).toBe(-1);
    expect(cellAt(layout, -1, 40)).toBe(-1);
    expect(cellAt(layout, 1, 100_000)).toBe(-1);
    expect(sectionAt(layout, -1)).toBe(-1);
  });
});

describe("move", () => {
  it.each([
    [0, "ArrowRight", 1],
    [0, "ArrowLeft", 0],
    [1, "ArrowDown", 6],
    [4, "ArrowDown", 6],
    [6, "ArrowDown", 7],
    [7, "ArrowDown", 8],
    [7, "ArrowUp", 5],
    [9, "ArrowUp", 7],
    [3, "Home", 0],
    [3, "End", 19],
    [19, "ArrowDown", 19],
    [19, "ArrowRight", 19],
    [2, "x", 2],
  ])("from %d with %s to %d", (from, key, to) => {
    expect(move(layout, from, key, 0)).toBe(to);
  });
  it("goes by pages, and not further than the ends", () => {
    expect(move(layout, 0, "PageDown", 100)).toBe(7);
    expect(move(layout, 19, "PageDown", 1000)).toBe(19);
    expect(move(layout, 19, "PageUp", 10_000)).toBe(0);
  });
});
