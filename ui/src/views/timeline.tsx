import { useMemo, useState } from "preact/hooks";

import { Age, Toggle } from "../components";
import { spansOf } from "../progress";
import { toggle } from "../route";
import { age, moment } from "../time";
import type { Moment } from "../types";
import { more } from "../words";

// pageLength is how many moments are shown at first, and how many more with each click.
const pageLength = 30;

const types: readonly { type: Moment["type"]; label: string }[] = [
  { type: "Disruption", label: "Disruptions" },
  { type: "Condition", label: "Conditions" },
  { type: "Event", label: "Events" },
  { type: "Creation", label: "Creation" },
];

const day = 24 * 60 * 60 * 1000;

// Timeline shows what happened on a node: disruptions of the last day on a strip, and everything in a list, the latest first.
export function Timeline({ moments, now }: { moments: Moment[]; now: number }) {
  const [chosen, setChosen] = useState<string[]>([]);
  const [length, setLength] = useState(pageLength);
  const shown = useMemo(() => moments.filter(({ type }) => chosen.length === 0 || chosen.includes(type)), [moments, chosen]);
  return (
    <section>
      <h2>Time line</h2>
      {moments.length === 0 ? (
        <p class="quiet">Nothing is known of this node's past.</p>
      ) : (
        <>
          <Strip moments={moments} now={now} />
          <div class="chips" role="group" aria-label="Types; choose some to filter">
            {types
              .filter(({ type }) => moments.some((each) => each.type === type))
              .map(({ type, label }) => (
                <Toggle key={type} on={chosen.includes(type)} onClick={() => setChosen(toggle(chosen, type))}>
                  {label} <b>{moments.filter((each) => each.type === type).length}</b>
                </Toggle>
              ))}
          </div>
          <ol class="timeline">
            {shown.slice(0, length).map((each, place) => (
              <MomentItem key={place} moment={each} now={now} />
            ))}
          </ol>
          {shown.length > length && (
            <button type="button" class="button" onClick={() => setLength(length + pageLength)}>
              {more(pageLength, shown.length - length)}
            </button>
          )}
        </>
      )}
    </section>
  );
}

function MomentItem({ moment: each, now }: { moment: Moment; now: number }) {
  const lasted = each.until && !each.count ? age(each.at, Date.parse(each.until)) : "";
  return (
    <li class={`moment is-${each.type}${each.warning ? " is-warning" : ""}`}>
      <time class="moment-at" dateTime={each.at}>
        {moment(each.at, now)}
      </time>
      <div>
        <p>
          <span class="reason">{each.reason}</span> <span class="kind">{each.object}</span>
          {each.warning && <span class="attention"> Warning</span>}
          {each.continues && (
            <b>
              {" "}
              for <Age since={each.at} now={now} />, goes on
            </b>
          )}
          {lasted !== "" && <span class="quiet"> took {lasted}</span>}
          {!!each.count && each.count > 1 && <span class="quiet"> {each.count} times</span>}
        </p>
        {each.message && <p class="quiet value">{each.message}</p>}
        {each.source && <p class="quiet source">{each.source}</p>}
      </div>
    </li>
  );
}

// maxLanes is how many rows a strip has at most.
const maxLanes = 8;

// Strip shows the disruptions of the last day, a row for each object.
function Strip({ moments, now }: { moments: Moment[]; now: number }) {
  const [from, to] = [new Date(now - day).toISOString(), new Date(now).toISOString()];
  const lanes = new Map<string, { name: string; spans: ReturnType<typeof spansOf> }>();
  for (const each of moments) {
    if (each.type !== "Disruption" || (!each.until && !each.continues)) {
      continue;
    }
    const spans = spansOf([{ from: each.at, to: each.until ?? to, reason: each.reason }], from, to);
    const lane = lanes.get(each.object);
    if (lane) {
      lane.spans.push(...spans);
    } else if (spans.length > 0 && lanes.size < maxLanes) {
      lanes.set(each.object, { name: each.object, spans });
    }
  }
  if (lanes.size === 0) {
    return null;
  }
  return (
    <div class="calendar">
      {[...lanes.values()].map((lane) => (
        <div class="calendar-row" key={lane.name}>
          <div class="calendar-name">{lane.name}</div>
          <div
            class="track"
            role="img"
            aria-label={lane.spans.map(({ interval }) => `${interval.reason}, ${moment(interval.from, now)} to ${moment(interval.to, now)}`).join("; ")}
          >
            {lane.spans.map((span, place) => (
              <span
                key={place}
                class="span is-disruption"
                style={{ left: `${span.left}%`, width: `${span.width}%` }}
                title={`${span.interval.reason}, ${moment(span.interval.from, now)} to ${moment(span.interval.to, now)}`}
              />
            ))}
          </div>
        </div>
      ))}
      <div class="calendar-row" aria-hidden="true">
        <span />
        <div class="scale">
          <span>24 h ago</span>
          <span>12 h ago</span>
          <span>now</span>
        </div>
      </div>
    </div>
  );
}
