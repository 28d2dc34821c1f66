import { useMemo, useState } from "preact/hooks";

import type { Session } from "../api";
import { Age, Empty, Link, Search, Toggle, UrgencyName, type Go } from "../components";
import { home, toggle, type Route } from "../route";
import { urgencies } from "../states";
import type { Wait } from "../types";
import { groupsOf, isShown, whyOf, type WaitGroup } from "../waits";
import { more, quantity } from "../words";

// pageLength is how many waits are shown at first, and how many more with each click.
const pageLength = 50;

export function WaitsView({ session, route, go, now }: { session: Session; route: Route; go: Go; now: number }) {
  const { waits } = session;
  const [length, setLength] = useState(pageLength);
  const kinds = useMemo(() => [...new Set(waits.values.map((wait) => wait.kind))].sort(), [waits.values]);
  const shown = useMemo(() => waits.values.filter((wait) => isShown(wait, route)), [waits.values, route]);
  const groups = useMemo(() => groupsOf(shown), [shown]);
  const count = (test: (wait: Wait) => boolean) => waits.values.filter(test).length;
  return (
    <div class="view waits">
      <div class="intro">
        <h1>Why not yet</h1>
        <p class="quiet">Everything that waits or is blocked, as the conditions of the objects say it: what needs a person first, and of that the oldest.</p>
      </div>
      <div class="toolbar">
        <div class="chips" role="group" aria-label="Urgency; choose some to filter">
          {urgencies.map((info) => (
            <Toggle
              key={info.urgency}
              on={route.urgencies.includes(info.urgency)}
              title={info.meaning}
              onClick={() => go({ urgencies: toggle(route.urgencies, info.urgency) }, true)}
            >
              <UrgencyName urgency={info.urgency} /> <b>{count((wait) => wait.urgency === info.urgency)}</b>
            </Toggle>
          ))}
        </div>
        <Search value={route.query} label="Search objects, nodes and messages" onInput={(query) => go({ query }, true)} />
        <span class="count" role="status">
          {shown.length === waits.values.length ? quantity(shown.length, "wait") : `${shown.length} of ${quantity(waits.values.length, "wait")}`}
          {waits.omitted > 0 && `, ${waits.omitted} more are left out`}
        </span>
      </div>
      {kinds.length > 1 && (
        <div class="chips" role="group" aria-label="Kinds; choose some to filter">
          {kinds.map((kind) => (
            <Toggle key={kind} on={route.kinds.includes(kind)} onClick={() => go({ kinds: toggle(route.kinds, kind) }, true)}>
              {kind} <b>{count((wait) => wait.kind === kind)}</b>
            </Toggle>
          ))}
        </div>
      )}
      {shown.length === 0 ? (
        <NoWaits session={session} go={go} />
      ) : (
        <ol class="wait-list">
          {groups.slice(0, length).map((group) => (
            <li key={group.key}>
              {group.waits.length === 1 ? <WaitItem wait={group.first} go={go} now={now} /> : <Together group={group} go={go} now={now} />}
            </li>
          ))}
        </ol>
      )}
      {groups.length > length && (
        <button type="button" class="button" onClick={() => setLength(length + pageLength)}>
          Show more
        </button>
      )}
    </div>
  );
}

function NoWaits({ session, go }: { session: Session; go: Go }) {
  if (session.waits.values.length > 0) {
    return (
      <Empty title="Nothing matches">
        <button type="button" class="button" onClick={() => go({ query: "", urgencies: [], kinds: [] }, true)}>
          Clear search and filters
        </button>
      </Empty>
    );
  }
  if (!session.cluster.complete) {
    return <Empty title="Reading the cluster…" />;
  }
  return (
    <Empty title="Nothing waits">
      <p>No object that you may read waits for anything.</p>
    </Empty>
  );
}

function objectOf(wait: Wait): string {
  return wait.namespace ? `${wait.namespace}/${wait.name}` : wait.name;
}

function WaitItem({ wait, go, now }: { wait: Wait; go: Go; now: number }) {
  return (
    <article class={`wait edge-${wait.urgency}`}>
      <div class="wait-head">
        <UrgencyName urgency={wait.urgency} />
        <h2>
          <span class="kind">{wait.kind}</span> {objectOf(wait)}
        </h2>
        <span class="since">
          <Age since={wait.since} now={now} />
        </span>
      </div>
      <p class="why">
        <span class="reason" title={wait.condition ? `condition ${wait.condition}` : undefined}>
          {wait.reason}
        </span>{" "}
        {whyOf(wait)}
      </p>
      <Advice wait={wait} go={go} />
    </article>
  );
}

function Advice({ wait, go }: { wait: Wait; go: Go }) {
  return (
    <p class="advice">
      {wait.action && <span class="action">{wait.action} </span>}
      {wait.runbook && (
        <a href={wait.runbook} target="_blank" rel="noreferrer">
          {wait.runbook.includes("/runbooks/") ? "Runbook" : "Conditions"}
          <span class="visually-hidden"> for {wait.reason}, in a new tab</span>
        </a>
      )}
      {wait.node && (
        <Link to={{ ...home, view: "node", node: wait.node }} go={go}>
          Node {wait.node}
        </Link>
      )}
      {wait.kind === "NodeGroup" && (
        <Link to={{ ...home, view: "progress", query: wait.name }} go={go}>
          Progress
        </Link>
      )}
    </p>
  );
}

function Together({ group, go, now }: { group: WaitGroup; go: Go; now: number }) {
  const { first, waits } = group;
  const [length, setLength] = useState(pageLength);
  const [open, setOpen] = useState(false);
  return (
    <details class={`wait edge-${first.urgency}`} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <div class="wait-head">
          <UrgencyName urgency={first.urgency} />
          <h2>
            <span class="kind">{first.kind}</span>{" "}
            {waits.every((wait) => objectOf(wait) === objectOf(first)) ? `${objectOf(first)}, ${waits.length} nodes` : `${waits.length} objects`}
          </h2>
          <span class="since">
            <Age since={first.since} now={now} />
          </span>
        </div>
        <p class="why">
          <span class="reason">{first.reason}</span> {waits.every((wait) => wait.message === first.message) && whyOf(first)}
        </p>
        {first.action && <p class="advice">{first.action}</p>}
      </summary>
      {open && (
        <ul class="members">
          {waits.slice(0, length).map((wait) => (
            <li key={wait.id}>
              <span class="member-name">{objectOf(wait)}</span>
              <span class="since">
                <Age since={wait.since} now={now} />
              </span>
              <span class="member-message">{wait.message}</span>
              {wait.node && (
                <Link to={{ ...home, view: "node", node: wait.node }} go={go}>
                  Node {wait.node}
                </Link>
              )}
            </li>
          ))}
        </ul>
      )}
      {open && waits.length > length && (
        <button type="button" class="button" onClick={() => setLength(length + pageLength)}>
          {more(pageLength, waits.length - length)}
        </button>
      )}
      {open && first.runbook && (
        <p class="advice">
          <a href={first.runbook} target="_blank" rel="noreferrer">
            Runbook<span class="visually-hidden"> for {first.reason}, in a new tab</span>
          </a>
        </p>
      )}
    </details>
  );
}
