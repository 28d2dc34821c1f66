const units: [string, number][] = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];

// age returns how long ago a time is, with two units at most; empty for no time.
export function age(since: string | undefined, now: number): string {
  const at = since === undefined ? NaN : Date.parse(since);
  if (Number.isNaN(at)) {
    return "";
  }
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  const first = units.findIndex(([, length]) => seconds >= length);
  if (first < 0) {
    return "0 s";
  }
  const [name, length] = units[first]!;
  const parts = [`${Math.floor(seconds / length)} ${name}`];
  const second = units[first + 1];
  const rest = second === undefined ? 0 : Math.floor((seconds % length) / second[1]);
  // Seconds beside minutes would change all the time.
  if (second !== undefined && rest > 0 && name !== "min") {
    parts.push(`${rest} ${second[0]}`);
  }
  return parts.join(" ");
}

// clock returns a time as people read it, in the time zone of the browser.
export function clock(at: string | undefined): string {
  const time = at === undefined ? NaN : Date.parse(at);
  return Number.isNaN(time) ? "" : new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}
