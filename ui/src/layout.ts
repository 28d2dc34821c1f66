// The places of the cells of groups, and which cell is where. All lengths are in CSS pixels.

export interface Section {
  // start is the number of its first cell, count how many it has.
  start: number;
  count: number;
  // top is where its heading begins, cells where its cells do, and bottom where it ends.
  top: number;
  cells: number;
  bottom: number;
}

export interface Layout {
  sections: Section[];
  columns: number;
  // size is that of a cell, pitch the distance of two cells.
  size: number;
  pitch: number;
  height: number;
  count: number;
}

export const heading = 32;
const space = 12;

// cellSize returns how large the cells of a fleet are: small enough to see much, large enough for a letter.
export function cellSize(count: number): number {
  return count <= 400 ? 28 : count <= 2000 ? 22 : count <= 8000 ? 18 : 14;
}

// layoutOf places groups of cells below each other.
export function layoutOf(counts: readonly number[], width: number): Layout {
  const count = counts.reduce((sum, each) => sum + each, 0);
  const size = cellSize(count);
  const pitch = size + (size > 18 ? 3 : 2);
  const columns = Math.max(1, Math.floor(width / pitch));
  const sections: Section[] = [];
  let top = 0;
  let start = 0;
  for (const each of counts) {
    const cells = top + heading;
    const bottom = cells + Math.ceil(each / columns) * pitch;
    sections.push({ start, count: each, top, cells, bottom });
    start += each;
    top = bottom + space;
  }
  return { sections, columns, size, pitch, height: Math.max(0, top - space), count };
}

// sectionAt returns the number of the last section that begins at or above a height; -1 for none.
export function sectionAt(layout: Layout, y: number): number {
  let low = 0;
  let high = layout.sections.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (layout.sections[middle]!.top <= y) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

// cellAt returns the number of the cell at a place; -1 for none.
export function cellAt(layout: Layout, x: number, y: number): number {
  const section = layout.sections[sectionAt(layout, y)];
  const column = Math.floor(x / layout.pitch);
  if (!section || x < 0 || y < section.cells || y >= section.bottom || column >= layout.columns) {
    return -1;
  }
  const within = Math.floor((y - section.cells) / layout.pitch) * layout.columns + column;
  return within < section.count ? section.start + within : -1;
}

// placeOf returns where a cell is.
export function placeOf(layout: Layout, cell: number): { x: number; y: number; section: number } {
  let section = layout.sections.findIndex((each) => cell >= each.start && cell < each.start + each.count);
  section = Math.max(0, section);
  const of = layout.sections[section];
  const within = cell - (of?.start ?? 0);
  return {
    x: (within % layout.columns) * layout.pitch,
    y: (of?.cells ?? 0) + Math.floor(within / layout.columns) * layout.pitch,
    section,
  };
}

// visit calls a function for each cell that is at least in part between two heights.
export function visit(layout: Layout, from: number, to: number, call: (cell: number, x: number, y: number) => void): void {
  for (let number = Math.max(0, sectionAt(layout, from)); number < layout.sections.length; number++) {
    const section = layout.sections[number]!;
    if (section.top >= to) {
      return;
    }
    const firstRow = Math.max(0, Math.floor((from - section.cells) / layout.pitch));
    const end = Math.min(section.count, Math.ceil((to - section.cells) / layout.pitch) * layout.columns);
    for (let within = firstRow * layout.columns; within < end; within++) {
      const x = (within % layout.columns) * layout.pitch;
      call(section.start + within, x, section.cells + Math.floor(within / layout.columns) * layout.pitch);
    }
  }
}

// move returns the cell that a key goes to from a cell.
export function move(layout: Layout, from: number, key: string, page: number): number {
  const last = layout.count - 1;
  const clamp = (cell: number) => Math.min(last, Math.max(0, cell));
  switch (key) {
    case "ArrowRight":
      return clamp(from + 1);
    case "ArrowLeft":
      return clamp(from - 1);
    case "Home":
      return clamp(0);
    case "End":
      return clamp(last);
    case "ArrowDown":
      return vertical(layout, from, 1);
    case "ArrowUp":
      return vertical(layout, from, -1);
    case "PageDown":
    case "PageUp": {
      let cell = from;
      for (let row = 0; row < Math.max(1, Math.floor(page / layout.pitch) - 1); row++) {
        cell = vertical(layout, cell, key === "PageDown" ? 1 : -1);
      }
      return cell;
    }
  }
  return from;
}

// vertical returns the cell a row below or above, in the same column if the row has it.
function vertical(layout: Layout, from: number, step: 1 | -1): number {
  const { section } = placeOf(layout, from);
  const of = layout.sections[section];
  if (!of) {
    return from;
  }
  const within = from - of.start;
  const column = within % layout.columns;
  const row = Math.floor(within / layout.columns) + step;
  const rows = Math.ceil(of.count / layout.columns);
  if (row >= 0 && row < rows) {
    return of.start + Math.min(of.count - 1, row * layout.columns + column);
  }
  const next = layout.sections[section + step];
  if (!next) {
    return from;
  }
  const lastRow = Math.ceil(next.count / layout.columns) - 1;
  return next.start + Math.min(next.count - 1, (step > 0 ? 0 : lastRow * layout.columns) + column);
}
