import { infoOf, rankOf, states } from "./states";
import type { Cell, NodeState } from "./types";

// Picture has the pixels of a picture.
export class Picture {
  readonly image: ImageData;
  private readonly pixels: Uint32Array;

  constructor(
    private readonly width: number,
    private readonly height: number,
    image = new ImageData(width, height),
  ) {
    this.image = image;
    this.pixels = new Uint32Array(image.data.buffer);
  }

  // add copies a picture into this one. What is outside of this one is left out.
  add(other: Picture, left: number, top: number): void {
    const width = Math.min(other.width, this.width - left);
    for (let row = Math.max(0, -top); row < other.height && top + row < this.height && width > 0; row++) {
      const from = row * other.width;
      this.pixels.set(other.pixels.subarray(from, from + width), (top + row) * this.width + left);
    }
  }
}

// Sprite is the picture of a cell.
export type Sprite = Picture;

// Sprites are the pictures of cells, drawn once for each state: a tile copies thousands of them.
export class Sprites {
  private readonly pictures = new Map<string, Sprite>();
  private readonly style = getComputedStyle(document.documentElement);

  constructor(
    private readonly size: number,
    private readonly scale: number,
  ) {}

  of(cell: Cell): Sprite {
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

  private draw(state: NodeState, notReady: boolean): Sprite {
    const picture = document.createElement("canvas");
    const size = (picture.width = picture.height = Math.round(this.size * this.scale));
    const context = picture.getContext("2d", { willReadFrequently: true })!;
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
      this.drawCorner(context);
    }
    return new Picture(size, size, context.getImageData(0, 0, size, size));
  }

  // drawCorner marks a node that is not Ready, whatever else happens to it.
  private drawCorner(context: CanvasRenderingContext2D): void {
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
}
