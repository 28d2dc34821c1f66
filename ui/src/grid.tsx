import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Group } from "./fleet";
import { cellAt, heading, layoutOf, move, placeOf, sectionAt, visit, type Layout } from "./layout";
import { Picture, Sprites, type Sprite } from "./sprites";
import { infoOf, states } from "./states";
import type { Cell } from "./types";

// tileHeight is how high the pictures are that cells are drawn on. The browser scrolls them without a script.
const tileHeight = 512;

function describe(cell: Cell, group: Group | undefined): string {
  const parts = [cell.name, infoOf(cell.state).label, cell.reason, cell.notReady ? "not ready" : "", group?.label, cell.zone, cell.version];
  return parts.filter((part) => part).join(", ");
}

interface Props {
  groups: Group[];
  selected: string;
  // marked are the nodes that are marked for an action.
  marked: ReadonlySet<string>;
  // theme changes when the colours do.
  theme: string;
  // hint is what else the keys do.
  hint: string;
  onSelect: (name: string, add: boolean) => void;
  onOpen: (name: string) => void;
}

// Grid draws every node as a cell. Cells are drawn on tiles near the window, once; later only those that have changed are drawn again.
export function Grid({ groups, selected, marked, theme, hint, onSelect, onOpen }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const [box, setBox] = useState({ width: 0, height: 0 });
  // near are the numbers of the first tile near the window, and of the last.
  const [near, setNear] = useState<readonly [number, number]>([0, 0]);
  const [hover, setHover] = useState(-1);
  const [focused, setFocused] = useState(false);
  const [activeName, setActiveName] = useState("");

  const cells = useMemo(() => groups.flatMap((group) => group.cells), [groups]);
  const shape = groups.map((group) => group.cells.length).join();
  const layout = useMemo(() => layoutOf(groups.map((group) => group.cells.length), box.width), [shape, box.width]);
  const scale = window.devicePixelRatio || 1;
  const sprites = useMemo(() => new Sprites(layout.size, scale), [layout.size, scale, theme]);
  const find = (name: string) => (name === "" ? -1 : cells.findIndex((cell) => cell.name === name));
  const chosen = find(selected);
  const active = Math.max(0, activeName === "" ? chosen : find(activeName));

  // watch finds out which tiles are near the window.
  const watch = ({ scrollTop, clientHeight }: HTMLElement) => {
    const first = Math.max(0, Math.floor(scrollTop / tileHeight) - 1);
    const last = Math.floor((scrollTop + clientHeight) / tileHeight) + 1;
    setNear((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };

  useEffect(() => {
    const element = scroller.current!;
    const observer = new ResizeObserver(() => {
      setBox({ width: element.clientWidth, height: element.clientHeight });
      watch(element);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

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
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return cellAt(layout, event.clientX - area.left, event.clientY - area.top);
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
        onSelect(cell.name, event.key === " ");
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

  const tiles = [];
  for (let number = near[0]; number <= near[1] && number * tileHeight < layout.height; number++) {
    tiles.push(number);
  }
  const firstSection = Math.max(0, sectionAt(layout, near[0] * tileHeight));
  const lastSection = sectionAt(layout, (near[1] + 1) * tileHeight);
  const activeCell = cells[active];
  const told = cells[hover] ?? (focused ? activeCell : undefined);
  const marks = marked.size === 0 ? [] : cells.flatMap((cell, place) => (marked.has(cell.name) ? [place] : []));
  return (
    <div class="grid-frame">
      <div class="grid" ref={scroller} onScroll={(event) => watch(event.currentTarget)}>
        <div class="grid-space" style={{ height: `${Math.max(layout.height, 1)}px` }}>
          {box.width > 0 &&
            tiles.map((number) => <Tile key={number} number={number} layout={layout} cells={cells} sprites={sprites} width={box.width} scale={scale} />)}
          {groups.slice(firstSection, lastSection + 1).map((group, place) => (
            <GroupHeading key={group.key} group={group} top={layout.sections[firstSection + place]?.top ?? 0} />
          ))}
          <div
            class="grid-cells"
            tabIndex={0}
            role="listbox"
            aria-label={`Nodes, ${cells.length} cells`}
            aria-multiselectable={true}
            aria-activedescendant={activeCell ? "active-cell" : undefined}
            aria-describedby="grid-help"
            onPointerMove={(event) => setHover(at(event))}
            onPointerLeave={() => setHover(-1)}
            onClick={(event) => {
              const cell = cells[at(event)];
              if (cell) {
                setActiveName(cell.name);
                onSelect(cell.name, event.shiftKey || event.ctrlKey || event.metaKey);
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
            {marks.map((place) => (
              <Ring key={`marked ${place}`} kind="marked" layout={layout} place={place} />
            ))}
            <Ring kind="hover" layout={layout} place={hover} />
            <Ring kind="chosen" layout={layout} place={chosen} />
            {activeCell && (
              <div
                id="active-cell"
                class={focused ? "ring is-active" : "ring"}
                style={ringStyle(layout, active)}
                role="option"
                aria-selected={activeCell.name === selected || marked.has(activeCell.name)}
                aria-posinset={active + 1}
                aria-setsize={cells.length}
                aria-label={describe(activeCell, groups[placeOf(layout, active).section])}
              />
            )}
          </div>
        </div>
      </div>
      <p class="readout" id="grid-help">
        {told
          ? describe(told, undefined)
          : `A corner marks a node that is not Ready. Arrow keys move, Enter shows a node, and again its page${hint && `; ${hint}`}.`}
      </p>
    </div>
  );
}

interface TileProps {
  number: number;
  layout: Layout;
  cells: readonly Cell[];
  sprites: Sprites;
  width: number;
  scale: number;
}

// Tile is a part of the cells. It draws all of them when their places or pictures change, and otherwise those whose picture is another one.
function Tile({ number, layout, cells, sprites, width, scale }: TileProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = useRef<{ layout: Layout; sprites: Sprites; sprite: Map<number, Sprite> } | undefined>(undefined);
  const height = Math.min(tileHeight, layout.height - number * tileHeight);

  useLayoutEffect(() => {
    const element = canvas.current!;
    const context = element.getContext("2d")!;
    const top = number * tileHeight;
    const isNew = shown.current?.layout !== layout || shown.current.sprites !== sprites;
    if (isNew) {
      element.width = Math.round(width * scale);
      element.height = Math.round(height * scale);
      shown.current = { layout, sprites, sprite: new Map() };
    }
    const { sprite: before } = shown.current!;
    // Thousands of cells are copied into one picture, which is drawn at once.
    const picture = isNew ? new Picture(element.width, element.height) : undefined;
    visit(layout, top, top + height, (place, x, y) => {
      const sprite = sprites.of(cells[place]!);
      if (before.get(place) === sprite) {
        return;
      }
      before.set(place, sprite);
      const [left, above] = [Math.round(x * scale), Math.round((y - top) * scale)];
      if (picture) {
        picture.add(sprite, left, above);
      } else {
        context.putImageData(sprite.image, left, above);
      }
    });
    if (picture) {
      context.putImageData(picture.image, 0, 0);
    }
  });

  useLayoutEffect(() => {
    if (number === 0) {
      performance.mark("drover-fleet"); // when cells were drawn first, for measurements
    }
  }, []);

  return <canvas ref={canvas} class="tile" aria-hidden="true" style={{ top: `${number * tileHeight}px`, width: `${width}px`, height: `${height}px` }} />;
}

function ringStyle(layout: Layout, place: number) {
  const { x, y } = placeOf(layout, place);
  return { transform: `translate(${x}px, ${y}px)`, width: `${layout.size}px`, height: `${layout.size}px` };
}

// Ring is a line around a cell.
function Ring({ kind, layout, place }: { kind: string; layout: Layout; place: number }) {
  return place < 0 || place >= layout.count ? null : <div class={`ring is-${kind}`} style={ringStyle(layout, place)} aria-hidden="true" />;
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
