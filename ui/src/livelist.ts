import type { Changes } from "./types";

// LiveList is values that changes keep up to date, in an order. Each change makes another array.
export class LiveList<T> {
  values: readonly T[] = [];
  omitted = 0;
  private places = new Map<string, number>();

  constructor(
    private readonly keyOf: (value: T) => string,
    private readonly compare: (a: T, b: T) => number,
  ) {}

  get(key: string): T | undefined {
    const place = this.places.get(key);
    return place === undefined ? undefined : this.values[place];
  }

  apply(changes: Changes<T>): void {
    this.omitted = changes.omitted ?? 0;
    if (changes.full) {
      this.sort([...changes.set]);
      return;
    }
    const values = [...this.values];
    const added: T[] = [];
    let moved = false;
    for (const value of changes.set) {
      const place = this.places.get(this.keyOf(value));
      const before = place === undefined ? undefined : values[place];
      if (place === undefined || before === undefined) {
        added.push(value);
      } else {
        moved ||= this.compare(before, value) !== 0;
        values[place] = value;
      }
    }
    const gone = new Set(changes.gone);
    if (added.length > 0 || gone.size > 0 || moved) {
      this.sort(values.filter((value) => !gone.has(this.keyOf(value))).concat(added));
    } else {
      this.values = values;
    }
  }

  private sort(values: T[]): void {
    this.values = values.sort(this.compare);
    this.places = new Map(this.values.map((value, place) => [this.keyOf(value), place]));
  }
}
