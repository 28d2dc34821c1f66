import { useMemo, useState } from "preact/hooks";

import type { Session } from "../api";
import { Age, Bar, Empty, Link, Names, Search, Toggle, type Go } from "../components";
import { activityStates, activityTypes, daysOf, isShown, openingOf, partsOf, slotsOf, spansOf, wavesOf, type Span } from "../progress";
import { home, toggle, type Route } from "../route";
import { moment, wait } from "../time";
import type { Activity, Budget, Calendar } from "../types";
import { more, quantity } from "../words";
import { ActionButton } from "./action";

// pageLength is how many of a list are shown at first, and how many more with each click. It is short: the budgets and the calendar follow.
const pageLength = 8;

interface Props {
  session: Session;
  route: Route;
  go: Go;
  now: number;
}

export function ProgressView({ session, route, go, now }: Props) {
  const { activities, budgets, calendar } = session;
  const [length, setLength] = useState(pageLength);
  const shown = useMemo(() => activities.values.filter((activity) => isShown(activity, route)), [activities.values, route]);
  const finished = activities.values.filter((activity) => activity.state === "Done").length;
  return (
    <div class="view progress">
      <div class="intro">
        <h1>Progress</h1>
        <p class="quiet">
          Roll-outs, replacements, drains and upgrades, what the <a href="#budgets">budgets</a> allow, and{" "}
          <a href="#calendar">when disruptions may begin</a>.
        </p>
      </div>
      <section aria-labelledby="activities">
        <h2 id="activities">What goes on</h2>
        <div class="toolbar">
          <div class="chips" role="group" aria-label="Types; choose some to filter">
            {activityTypes.map(({ type, plural }) => (
              <Toggle key={type} on={route.types.includes(type)} onClick={() => go({ types: toggle(route.types, type) }, true)}>
                {plural} <b>{activities.values.filter((activity) => activity.type === type && (route.finished || activity.state !== "Done")).length}</b>
              </Toggle>
            ))}
            <Toggle on={route.finished} onClick={() => go({ finished: !route.finished }, true)}>
              Also finished <b>{finished}</b>
            </Toggle>
          </div>
          <Search value={route.query} label="Search objects and nodes" onInput={(query) => go({ query }, true)} />
          {activities.omitted > 0 && <span class="count">{activities.omitted} more are left out</span>}
        </div>
        {shown.length === 0 ? (
          <NoActivities session={session} route={route} go={go} />
        ) : (
          <ol class="wait-list">
            {shown.slice(0, length).map((activity) => (
              <li key={activity.id}>
                <ActivityItem activity={activity} session={session} go={go} now={now} />
              </li>
            ))}
          </ol>
        )}
        <More length={length} of={shown.length} onMore={setLength} />
      </section>
      <Budgets budgets={budgets.values} omitted={budgets.omitted} go={go} now={now} />
      {calendar && <CalendarStrip calendar={calendar} now={now} />}
    </div>
  );
}

function More({ length, of, onMore }: { length: number; of: number; onMore: (length: number) => void }) {
  return of > length ? (
    <button type="button" class="button" onClick={() => onMore(length + pageLength)}>
      {more(pageLength, of - length)}
    </button>
  ) : null;
}

function NoActivities({ session, route, go }: { session: Session; route: Route; go: Go }) {
  if (!session.cluster.complete) {
    return <Empty title="Reading the cluster…" />;
  }
  if (route.query !== "" || route.types.length > 0) {
    return (
      <Empty title="Nothing matches">
        <button type="button" class="button" onClick={() => go({ query: "", types: [] }, true)}>
          Clear search and filters
        </button>
      </Empty>
    );
  }
  return (
    <Empty title="Nothing goes on">
      <p>No roll-out, replacement, drain or upgrade is in progress.</p>
    </Empty>
  );
}

function objectOf({ namespace, name }: { namespace?: string; name: string }): string {
  return namespace ? `${namespace}/${name}` : name;
}

// amount is how much of an activity is done.
function amount(activity: Activity): string {
  if (activity.total === 0) {
    return "not counted yet";
  }
  return activity.unit === "percent" ? `${activity.done} %` : `${activity.done} of ${activity.total} ${activity.unit}`;
}

function ActivityItem({ activity, session, go, now }: { activity: Activity; session: Session; go: Go; now: number }) {
  const type = activityTypes.find((info) => info.type === activity.type)?.label ?? activity.type;
  const parts = partsOf(activity);
  const label = [amount(activity), ...parts.slice(1).map((part) => `${part.count} ${part.label}`)].join(", ");
  return (
    <article class={`wait activity edge-${activity.state}`}>
      <div class="wait-head">
        <ActivityState activity={activity} />
        <h3>
          <span class="kind">
            {type} · {activity.kind}
          </span>{" "}
          {objectOf(activity)}
        </h3>
        {activity.since && (
          <span class="since">
            for <Age since={activity.since} now={now} />
          </span>
        )}
      </div>
      <Bar parts={parts} whole={Math.max(1, activity.total)} label={label} />
      <p class="numbers">
        <b>{amount(activity)}</b>
        {activity.unit !== "percent" &&
          parts
            .filter((part) => part.name !== "done")
            .map((part) => (
              <span key={part.name}>
                <span class={`key is-${part.name}`} aria-hidden="true" /> {part.count} {part.label}
              </span>
            ))}
        <Speed activity={activity} now={now} />
      </p>
      <Waves activity={activity} />
      {activity.message && <p class="why">{activity.message}</p>}
      <div class="advice">
        {activity.node && (
          <Link to={{ ...home, view: "node", node: activity.node }} go={go}>
            Node {activity.node}
          </Link>
        )}
        {activity.type !== "Drain" && (
          <Link to={{ ...home, view: "waits", query: activity.name }} go={go}>
            Why not yet
          </Link>
        )}
        <ActivityActions activity={activity} session={session} />
      </div>
      {activity.upgrade?.nodes && activity.upgrade.nodes.length > 0 && <UpgradeNodes nodes={activity.upgrade.nodes} go={go} now={now} />}
    </article>
  );
}

function ActivityState({ activity }: { activity: Activity }) {
  const info = activityStates.find((known) => known.state === activity.state);
  return (
    <span class={`urgency urgency-${activity.state}`}>
      <span aria-hidden="true">{info?.letter ?? "?"}</span> {info?.label ?? activity.state}
    </span>
  );
}

// Speed is how fast an activity is and when it is expected to end.
function Speed({ activity, now }: { activity: Activity; now: number }) {
  const left = wait(activity.expectedEnd, now);
  return (
    <>
      {!!activity.perHour && activity.unit !== "percent" && activity.state !== "Stopped" && activity.state !== "Suspended" && (
        <span>
          {activity.perHour < 10 ? activity.perHour.toFixed(1) : Math.round(activity.perHour)} {activity.unit} an hour
        </span>
      )}
      {activity.state === "Running" && left === "" && (
        <span class="quiet" title="Too little is done yet, or the status does not say since when">
          expected end unknown
        </span>
      )}
      {activity.expectedEnd && left !== "" && (
        <span>
          expected end <time dateTime={activity.expectedEnd}>{moment(activity.expectedEnd, now)}</time>, in {left}
        </span>
      )}
    </>
  );
}

function Waves({ activity }: { activity: Activity }) {
  const { wave, waves } = activity;
  if (!waves) {
    return null;
  }
  const segments = wavesOf(activity);
  const text = wave ? `Wave ${wave} of ${waves}` : `${waves} waves, none has begun`;
  return (
    <div class="waves">
      <span>{text}</span>
      {segments.length > 0 && (
        <span class="segments" aria-hidden="true">
          {segments.map((kind, place) => (
            <span key={place} class={`segment is-${kind}`} />
          ))}
        </span>
      )}
    </div>
  );
}

function ActivityActions({ activity, session }: { activity: Activity; session: Session }) {
  if (activity.type === "Drain" && activity.node) {
    return <ActionButton session={session} action="endMaintenance" targets={[activity.node]} />;
  }
  const kind = activity.kind.toLowerCase();
  if (activity.type !== "RollOut" || !["nodegroup", "machineset"].includes(kind)) {
    return null;
  }
  const of = { session, targets: [`${kind}/${activity.name}`], namespace: activity.namespace };
  const { state } = activity;
  return (
    <>
      {(state === "Suspended" || (state === "Stopped" && kind === "nodegroup")) && <ActionButton {...of} action="resume" />}
      {state !== "Suspended" && <ActionButton {...of} action="pause" />}
    </>
  );
}

function UpgradeNodes({ nodes, go, now }: { nodes: NonNullable<NonNullable<Activity["upgrade"]>["nodes"]>; go: Go; now: number }) {
  const [open, setOpen] = useState(false);
  const [length, setLength] = useState(pageLength);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{quantity(nodes.length, "node")}</summary>
      {open && (
        <ul class="members">
          {nodes.slice(0, length).map((node) => (
            <li key={node.name}>
              <Link class="member-name" to={{ ...home, view: "node", node: node.name }} go={go}>
                {node.name}
              </Link>
              <span class="reason">{node.phase}</span>
              {node.started && !node.finished && (
                <span class="since">
                  <Age since={node.started} now={now} />
                </span>
              )}
              <span class="member-message">{node.message}</span>
            </li>
          ))}
        </ul>
      )}
      {open && <More length={length} of={nodes.length} onMore={setLength} />}
    </details>
  );
}

function Budgets({ budgets, omitted, go, now }: { budgets: readonly Budget[]; omitted: number; go: Go; now: number }) {
  const [length, setLength] = useState(pageLength);
  return (
    <section aria-labelledby="budgets">
      <h2 id="budgets">Budgets</h2>
      {budgets.length === 0 ? (
        <p class="quiet">No NodeGroup has a budget: spec.disruption.maxUnavailable sets one.</p>
      ) : (
        <ul class="budgets">
          {budgets.slice(0, length).map((budget) => (
            <BudgetItem key={budget.nodeGroup} budget={budget} go={go} now={now} />
          ))}
        </ul>
      )}
      <More length={length} of={budgets.length} onMore={setLength} />
      {omitted > 0 && <p class="quiet">{omitted} more are left out.</p>}
    </section>
  );
}

function BudgetItem({ budget, go, now }: { budget: Budget; go: Go; now: number }) {
  const { parts, whole } = slotsOf(budget);
  const limit = budget.limit ?? "an unknown number";
  const exceeded = budget.limit !== undefined && budget.unavailable > budget.limit;
  const text = `${budget.unavailable} of ${limit} unavailable`;
  return (
    <li class="budget">
      <div class="wait-head">
        <h3>{budget.nodeGroup}</h3>
        <span class={exceeded ? "attention" : "quiet"}>{text}</span>
        <span class="since">
          maxUnavailable {budget.maxUnavailable} of {budget.nodes} nodes
        </span>
      </div>
      <div class="budget-bar">
        <Bar parts={parts} whole={whole} label={`${text}: ${parts.map((part) => `${part.count} ${part.label}`).join(", ") || "none"}`} />
        {exceeded && <span class="limit" style={{ left: `${(budget.limit! / whole) * 100}%` }} aria-hidden="true" />}
      </div>
      <p class="numbers">
        {parts.map((part) => (
          <span key={part.name + part.label}>
            <span class={`key is-${part.name}`} aria-hidden="true" /> {part.count} {part.label}
          </span>
        ))}
        {parts.length === 0 && <span>No node may be disrupted.</span>}
      </p>
      {!budget.open && (
        <p class="why">
          <span class="reason">Closed</span> {budget.closed}
          {budget.changes && `; opens ${moment(budget.changes, now)} in your time zone`}
        </p>
      )}
      {budget.others > 0 && (
        <p class="advice">
          <Link to={{ ...home, states: ["Unhealthy", "Disrupted"], list: true, query: `group=${budget.nodeGroup}` }} go={go}>
            Nodes that are unhealthy or disrupted by others
          </Link>
        </p>
      )}
      {budget.holders.length > 0 && (
        <details>
          <summary>Nodes that Drover disrupts</summary>
          <ul class="members">
            {budget.holders.map((holder) => (
              <li key={holder.node + holder.capability}>
                {holder.node.includes("/") ? (
                  <span class="member-name">{holder.node}</span>
                ) : (
                  <Link class="member-name" to={{ ...home, view: "node", node: holder.node }} go={go}>
                    {holder.node}
                  </Link>
                )}
                <span>{holder.capability}</span>
                <span class="member-message">{holder.object}</span>
                {holder.since && (
                  <span class="since">
                    <Age since={holder.since} now={now} />
                  </span>
                )}
              </li>
            ))}
          </ul>
          {!!budget.omitted && <p class="quiet">{budget.omitted} more are left out.</p>}
        </details>
      )}
    </li>
  );
}

function CalendarStrip({ calendar, now }: { calendar: Calendar; now: number }) {
  const { from, to, rows } = calendar;
  const days = useMemo(() => daysOf(from, to), [from, to]);
  if (rows.length === 0) {
    return (
      <section aria-labelledby="calendar">
        <h2 id="calendar">Windows and freezes</h2>
        <p class="quiet">No NodeGroup and no MutexRunConfig has windows or freezes: disruptions may begin at any time.</p>
      </section>
    );
  }
  return (
    <section aria-labelledby="calendar">
      <h2 id="calendar">Windows and freezes</h2>
      <p class="numbers">
        <span>
          <span class="key is-open" aria-hidden="true" /> disruptions may begin
        </span>
        <span>
          <span class="key is-freeze" aria-hidden="true" /> freeze
        </span>
        <span class="quiet">Times of your browser</span>
      </p>
      <div class="calendar">
        <div class="calendar-row" aria-hidden="true">
          <span />
          <div class="track is-scale">
            {days.map((day) => (
              <span class="day" key={day.at.getTime()} style={{ left: `${day.left}%` }}>
                {day.at.toLocaleDateString(undefined, { weekday: "short", day: "numeric" })}
              </span>
            ))}
          </div>
        </div>
        {rows.map((row) => {
          const open = spansOf(row.open, from, to);
          const freezes = spansOf(row.freezes ?? [], from, to);
          return (
            <div class="calendar-row" key={`${row.kind}/${objectOf(row)}`}>
              <div class="calendar-name">
                <span class="kind">{row.kind}</span> {objectOf(row)}
                {row.error && <p class="attention">{row.error}</p>}
                {!row.error && <p class="quiet">{openingText(openingOf(row.open, now, row.until ?? to), now)}</p>}
                {freezes.length > 0 && (
                  <div class="quiet">
                    <Names names={[...new Set(freezes.map((span) => `freeze ${rangeOf(span, now)}`))]} what="freezes" />
                  </div>
                )}
              </div>
              <div class="track" role="img" aria-label={sentence(open, freezes, now)}>
                {days.map((day) => (
                  <span class="line" key={day.at.getTime()} style={{ left: `${day.left}%` }} />
                ))}
                <Spans spans={open} kind="open" now={now} />
                <Spans spans={freezes} kind="freeze" now={now} />
              </div>
            </div>
          );
        })}
      </div>
      {!!calendar.omitted && <p class="quiet">{calendar.omitted} more are left out.</p>}
    </section>
  );
}

// openingText says whether disruptions may begin now, and when that changes.
function openingText({ open, changes }: { open: boolean; changes?: string }, now: number): string {
  const when = changes === undefined ? "" : moment(changes, now);
  if (open) {
    return when === "" ? "open now" : `open now, until ${when}`;
  }
  return when === "" ? "closed now, and in these days" : `closed now, opens ${when}`;
}

function rangeOf({ interval }: Span, now: number): string {
  return `${moment(interval.from, now)} to ${moment(interval.to, now)}${interval.reason ? ` (${interval.reason})` : ""}`;
}

function Spans({ spans, kind, now }: { spans: readonly Span[]; kind: string; now: number }) {
  return spans.map((span) => (
    <span
      key={`${span.interval.from} ${span.interval.to}`}
      class={`span is-${kind}`}
      style={{ left: `${span.left}%`, width: `${span.width}%` }}
      title={rangeOf(span, now)}
    />
  ));
}

// sentence is what a row of the calendar shows, in words.
function sentence(open: readonly Span[], freezes: readonly Span[], now: number): string {
  const list = (spans: readonly Span[]) =>
    spans.slice(0, 10).map((span) => rangeOf(span, now)).join("; ") + (spans.length > 10 ? `; and ${spans.length - 10} more` : "");
  return [open.length === 0 ? "Not open in these days" : `Open ${list(open)}`, ...(freezes.length > 0 ? [`freeze ${list(freezes)}`] : [])].join(". ");
}
