// quantity returns a number and a word for what is counted.
export function quantity(count: number, one: string): string {
  return count === 1 ? `1 ${one}` : `${count} ${one}s`;
}

// more is the text of a button that shows a part of what is left of a list, or all of it.
export function more(length: number, left: number): string {
  return left <= length ? `Show ${left} more` : `Show ${length} more of ${left}`;
}
