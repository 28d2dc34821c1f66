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

// wait returns how long it is until a time; empty for no time, and for one in the past.
export function wait(until: string | undefined, now: number): string {
  const at = until === undefined ? NaN : Date.parse(until);
  return Number.isNaN(at) || at < now ? "" : age(new Date(now).toISOString(), at);
}

// moment returns a time of the next or the last days in short: without the day if it is today.
export function moment(at: string, now: number): string {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) {
    return "";
  }
  const isToday = time.toDateString() === new Date(now).toDateString();
  return time.toLocaleString(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(!isToday && { weekday: "short", day: "numeric", month: "short" }) });
}

// clock returns a time as people read it, in the time zone of the browser.
export function clock(at: string | undefined): string {
  const time = at === undefined ? NaN : Date.parse(at);
  return Number.isNaN(time) ? "" : new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}
