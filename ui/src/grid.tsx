import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Group } from "./fleet";
import { cellAt, layoutOf, move, placeOf, sectionAt, heading, type Layout } from "./layout";
import { infoOf, rankOf, states } from "./states";
import type { Cell, NodeState } from "./types";

// Sprites are the pictures of cells, drawn once for each state: a frame copies thousands of them.
class Sprites {
  private readonly pictures = new Map<string, HTMLCanvasElement>();

  constructor(
    readonly size: number,
    readonly scale: number,
    private readonly style: CSSStyleDeclaration,
  ) {}

  of(cell: Cell): HTMLCanvasElement {
    const key = cell.notReady ? `${cell.state}!` : cell.state;
    let picture = this.pictures.get(key);
    if (!picture) {
      picture = this.draw(cell.state, cell.notReady ?? false);
      this.pictures.set(key, picture);
    }
    return picture;
  }

  private color(name: string): string {
    return this.style.getPropertyValue(name).trim() || "#888";
  }

  private draw(state: NodeState, notReady: boolean): HTMLCanvasElement {
    const picture = document.createElement("canvas");
    picture.width = picture.height = Math.round(this.size * this.scale);
    const context = picture.getContext("2d")!;
    context.scale(this.scale, this.scale);
    const known = rankOf(state) < states.length ? state : "Unmanaged";
    context.fillStyle = this.color(`--${known}`);
    context.strokeStyle = this.color(`--${known}-line`);
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(0.5, 0.5, this.size - 1, this.size - 1, 3);
    context.fill();
    context.stroke();
    context.fillStyle = this.color(`--${known}-ink`);
    context.font = `700 ${Math.round(this.size * 0.64)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(infoOf(state).letter, this.size / 2, this.size / 2 + 0.5);
    if (notReady && state !== "Unhealthy") {
      // The corner of a node that is not Ready, whatever else happens to it.
      context.fillStyle = this.color("--Unhealthy");
      context.strokeStyle = this.color("--page");
      context.beginPath();
      context.moveTo(this.size, 0);
      context.lineTo(this.size, this.size * 0.45);
      context.lineTo(this.size * 0.55, 0);
      context.closePath();
      context.fill();
      context.stroke();
    }
    return picture;
  }
}

function describe(cell: Cell, group: Group | undefined): string {
  const parts = [cell.name, infoOf(cell.state).label, cell.reason, cell.notReady ? "not ready" : "", group?.label, cell.zone, cell.version];
  return parts.filter((part) => part).join(", ");
}

interface Props {
  groups: Group[];
  selected: string;
  // theme changes when the colours do.
  theme: string;
  onSelect: (name: string) => void;
  onOpen: (name: string) => void;
}

// Grid draws every node as a cell on a canvas of the size of the window. Only what is in the window is drawn, so a frame costs the same for any fleet.
export function Grid({ groups, selected, theme, onSelect, onOpen }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const sprites = useRef<Sprites | undefined>(undefined);
  const [box, setBox] = useState({ width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const [hover, setHover] = useState(-1);
  const [focused, setFocused] = useState(false);
  const [activeName, setActiveName] = useState("");

  const cells = useMemo(() => groups.flatMap((group) => group.cells), [groups]);
  const shape = groups.map((group) => group.cells.length).join();
  const layout = useMemo(() => layoutOf(groups.map((group) => group.cells.length), box.width), [shape, box.width]);
  const places = useMemo(() => new Map(cells.map((cell, place) => [cell.name, place])), [cells]);
  const active = places.get(activeName) ?? places.get(selected) ?? 0;

  useEffect(() => {
    const element = scroller.current!;
    const observer = new ResizeObserver(() => setBox({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // The colours of another theme are other pictures.
  useLayoutEffect(() => {
    sprites.current = undefined;
  }, [theme]);

  // Each rendering draws. Events and scrolling cause one rendering a frame, so headings and cells move together.
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || box.width === 0) {
      return;
    }
    const scale = window.devicePixelRatio || 1;
    if (sprites.current?.size !== layout.size || sprites.current.scale !== scale) {
      sprites.current = new Sprites(layout.size, scale, getComputedStyle(element));
    }
    const marked = places.get(selected) ?? -1;
    draw(element, { layout, cells, box, top, scale, sprites: sprites.current, marked, active: focused ? active : -1, hover });
  });

  const show = (cell: number) => {
    const { y } = placeOf(layout, cell);
    const element = scroller.current!;
    if (y - heading < element.scrollTop) {
      element.scrollTop = y - heading;
    } else if (y + layout.pitch > element.scrollTop + element.clientHeight) {
      element.scrollTop = y + layout.pitch - element.clientHeight;
    }
  };

  const at = (event: MouseEvent) => {
    const area = canvas.current!.getBoundingClientRect();
    return cellAt(layout, event.clientX - area.left, event.clientY - area.top + top);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const cell = cells[active];
    if (!cell || event.metaKey || event.ctrlKey || event.altKey) {
      return;
    }
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (event.key === "Enter" && cell.name === selected) {
        onOpen(cell.name);
      } else {
        onSelect(cell.name);
      }
      return;
    }
    const next = move(layout, active, event.key, box.height);
    if (next !== active || event.key.startsWith("Arrow")) {
      event.preventDefault();
      setActiveName(cells[next]!.name);
      show(next);
    }
  };

  const first = Math.max(0, sectionAt(layout, top));
  const last = sectionAt(layout, top + box.height);
  const activeCell = cells[active];
  const told = cells[hover] ?? (focused ? activeCell : undefined);
  return (
    <div class="grid-frame">
      <div class="grid" ref={scroller} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <div class="grid-space" style={{ height: `${Math.max(layout.height, 1)}px` }}>
          <canvas
            ref={canvas}
            class="grid-canvas"
            style={{ width: `${box.width}px`, height: `${box.height}px` }}
            tabIndex={0}
            role="listbox"
            aria-label={`Nodes, ${cells.length} cells`}
            aria-activedescendant={activeCell ? "active-cell" : undefined}
            aria-describedby="grid-help"
            onPointerMove={(event) => setHover(at(event))}
            onPointerLeave={() => setHover(-1)}
            onClick={(event) => {
              const cell = cells[at(event)];
              if (cell) {
                setActiveName(cell.name);
                onSelect(cell.name);
              }
            }}
            onDblClick={(event) => {
              const cell = cells[at(event)];
              if (cell) {
                onOpen(cell.name);
              }
            }}
            onKeyDown={onKeyDown}
            onFocus={() => setFocused(true)}
            onBlur={() => setFocused(false)}
          >
            {activeCell && (
              <div
                id="active-cell"
                role="option"
                aria-selected={activeCell.name === selected}
                aria-posinset={active + 1}
                aria-setsize={cells.length}
                aria-label={describe(activeCell, groups[placeOf(layout, active).section])}
              />
            )}
          </canvas>
          {groups.slice(first, last + 1).map((group, place) => (
            <GroupHeading key={group.key} group={group} top={layout.sections[first + place]?.top ?? 0} />
          ))}
        </div>
      </div>
      <p class="readout" id="grid-help">
        {told ? describe(told, undefined) : "Point at a cell, or use the arrow keys; Enter shows the node, and Enter again opens its page."}
      </p>
    </div>
  );
}

function GroupHeading({ group, top }: { group: Group; top: number }) {
  const counts = states.filter((info) => group.counts.has(info.state));
  return (
    <h2 class="group" style={{ top: `${top}px` }} title={group.label}>
      <span class="group-name">{group.label}</span>
      <span class="group-count">{group.cells.length}</span>
      <span class="group-states">
        {counts.length === 1 ? counts[0]!.label : counts.map((info) => `${group.counts.get(info.state)} ${info.label.toLowerCase()}`).join(" · ")}
      </span>
    </h2>
  );
}

interface Picture {
  layout: Layout;
  cells: readonly Cell[];
  box: { width: number; height: number };
  top: number;
  scale: number;
  sprites: Sprites;
  marked: number;
  active: number;
  hover: number;
}

function draw(element: HTMLCanvasElement, { layout, cells, box, top, scale, sprites, marked, active, hover }: Picture): void {
  const width = Math.round(box.width * scale);
  const height = Math.round(box.height * scale);
  if (element.width !== width || element.height !== height) {
    element.width = width;
    element.height = height;
  }
  const context = element.getContext("2d")!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, box.width, box.height);
  for (let number = Math.max(0, sectionAt(layout, top)); number < layout.sections.length; number++) {
    const section = layout.sections[number]!;
    if (section.top > top + box.height) {
      break;
    }
    const firstRow = Math.max(0, Math.floor((top - section.cells) / layout.pitch));
    const lastRow = Math.floor((top + box.height - section.cells) / layout.pitch);
    const end = Math.min(section.count, (lastRow + 1) * layout.columns);
    for (let within = firstRow * layout.columns; within < end; within++) {
      const cell = cells[section.start + within];
      if (cell) {
        const x = (within % layout.columns) * layout.pitch;
        const y = section.cells + Math.floor(within / layout.columns) * layout.pitch - top;
        context.drawImage(sprites.of(cell), x, y, layout.size, layout.size);
      }
    }
  }
  const style = getComputedStyle(element);
  const ring = (cell: number, color: string, wide: number) => {
    if (cell < 0 || cell >= cells.length) {
      return;
    }
    const { x, y } = placeOf(layout, cell);
    context.strokeStyle = style.getPropertyValue("--page").trim();
    context.lineWidth = wide + 2;
    context.strokeRect(x - 0.5, y - top - 0.5, layout.size + 1, layout.size + 1);
    context.strokeStyle = style.getPropertyValue(color).trim();
    context.lineWidth = wide;
    context.strokeRect(x - 0.5, y - top - 0.5, layout.size + 1, layout.size + 1);
  };
  ring(hover, "--text", 1);
  ring(marked, "--text", 2);
  ring(active, "--focus", 2);
}
