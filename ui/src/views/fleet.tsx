import { useMemo, useState } from "preact/hooks";

import type { Session } from "../api";
import { Age, Empty, Link, Reason, Search, StateMark, StateName, Toggle, UrgencyName, type Go } from "../components";
import { countsOf, groupingOf, groupsOf, matching, worstFirst } from "../fleet";
import { Grid } from "../grid";
import { home, toggle, type Grouping, type Route } from "../route";
import { states } from "../states";
import type { Cell } from "../types";
import { whyOf } from "../waits";
import { more } from "../words";
import { maxTargets, NodeActions } from "./action";

const groupingNames: Record<Grouping, string> = {
  nodeGroup: "NodeGroup",
  machineSet: "MachineSet",
  zone: "Zone",
  version: "Kubelet version",
  none: "Nothing",
};

export function FleetView({ session, route, go, now, theme }: { session: Session; route: Route; go: Go; now: number; theme: string }) {
  const { cells } = session;
  const found = useMemo(() => matching(cells.values, route.query), [cells.values, route.query]);
  const counts = useMemo(() => countsOf(found), [found]);
  const shown = useMemo(
    () => (route.states.length === 0 ? found : found.filter((cell) => route.states.includes(cell.state))),
    [found, route.states.join()],
  );
  const grouping = groupingOf(cells.values, route.group);
  const groups = useMemo(() => groupsOf(shown, grouping), [shown, grouping]);
  const selected = route.selected === "" ? undefined : cells.get(route.selected);
  const [marks, setMarks] = useState<ReadonlySet<string>>(new Set());
  const mayWrite = !!session.cluster.write;
  // A node that is gone is not marked any more.
  const marked = useMemo(() => new Set([...marks].filter((name) => cells.get(name))), [marks, cells.values]);
  const mark = (name: string) => setMarks(new Set(marked.has(name) ? [...marked].filter((other) => other !== name) : [...marked, name]));
  const open = (name: string) => go({ ...home, view: "node", node: name });

  return (
    <div class="view fleet">
      <h1 class="visually-hidden">Fleet</h1>
      <div class="toolbar">
        <label class="field">
          Group by{" "}
          <select value={grouping} onChange={(event) => go({ group: event.currentTarget.value as Grouping }, true)}>
            {Object.entries(groupingNames).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <Search value={route.query} label="Search nodes" hint="Search: name, zone:a, is:notready" onInput={(query) => go({ query }, true)} />
        <div class="switch" role="group" aria-label="Show nodes as">
          <Toggle on={!route.list} onClick={() => go({ list: false }, true)}>Cells</Toggle>
          <Toggle on={route.list} onClick={() => go({ list: true }, true)}>List</Toggle>
        </div>
        {mayWrite && shown.length > 0 && shown.length <= maxTargets && (
          <button type="button" class="button small" onClick={() => setMarks(new Set(shown.map((cell) => cell.name)))}>
            Mark all {shown.length}
          </button>
        )}
        <span class="count" role="status">
          {shown.length === cells.values.length ? shown.length : `${shown.length} of ${cells.values.length}`}{" "}
          {cells.values.length === 1 ? "node" : "nodes"}
        </span>
      </div>
      <div class="legend" role="group" aria-label="States; choose some to filter">
        {states.filter((info) => info.state !== "Loading" || counts.has(info.state)).map((info) => (
          <Toggle
            key={info.state}
            on={route.states.includes(info.state)}
            title={info.meaning}
            disabled={!counts.has(info.state) && !route.states.includes(info.state)}
            onClick={() => go({ states: toggle(route.states, info.state) }, true)}
          >
            <StateMark state={info.state} /> {info.label} <b>{counts.get(info.state) ?? 0}</b>
          </Toggle>
        ))}
      </div>
      {marked.size > 0 && (
        <div class="marked" role="region" aria-label="Marked nodes">
          <span>
            <b>{marked.size}</b> marked{marked.size > maxTargets && `, at most ${maxTargets} at once`}
          </span>
          <NodeActions session={session} names={[...marked]} />
          <button type="button" class="button small" onClick={() => setMarks(new Set())}>
            Clear
          </button>
        </div>
      )}
      {route.selected !== "" && !selected && session.cluster.complete && (
        <p class="notice" role="status">
          There is no node {route.selected}.{" "}
          <button type="button" class="button small" onClick={() => go({ selected: "" }, true)}>
            Close
          </button>
        </p>
      )}
      <div class={selected ? "split has-panel" : "split"}>
        {shown.length === 0 ? (
          <NoNodes session={session} go={go} />
        ) : route.list ? (
          <NodeList cells={shown} route={route} go={go} now={now} marked={marked} onMark={mayWrite ? mark : undefined} />
        ) : (
          <Grid
            groups={groups}
            selected={route.selected}
            marked={marked}
            theme={theme}
            hint={mayWrite ? "space, or Shift and a click, marks it for an action" : ""}
            onSelect={(name, add) => (add && mayWrite ? mark(name) : go({ selected: name }, route.selected !== ""))}
            onOpen={open}
          />
        )}
        {selected && (
          <Panel
            cell={selected}
            session={session}
            route={route}
            go={go}
            now={now}
            isMarked={marked.has(selected.name)}
            onMark={mayWrite ? () => mark(selected.name) : undefined}
          />
        )}
      </div>
    </div>
  );
}

function NoNodes({ session, go }: { session: Session; go: Go }) {
  const nodes = session.cluster.sources?.find((source) => source.resource === "nodes");
  if (session.cells.values.length > 0) {
    return (
      <Empty title="No node matches">
        <p>
          A node has to match each word. A word can name a field: <code>name:</code>, <code>group:</code>, <code>set:</code>, <code>machine:</code>,{" "}
          <code>zone:</code>, <code>version:</code>, <code>reason:</code>, <code>is:notready</code>, <code>is:controlplane</code>. With = instead of : the field has to be the word.
        </p>
        <button type="button" class="button" onClick={() => go({ query: "", states: [] }, true)}>
          Clear search and filters
        </button>
      </Empty>
    );
  }
  switch (nodes?.availability) {
    case "Forbidden":
      return (
        <Empty title="You may not list nodes">
          <p>The fleet needs get, list and watch on nodes. The API server says:</p>
          <p class="mono">{nodes.message}</p>
        </Empty>
      );
    case "Failing":
      return (
        <Empty title="The API server does not answer">
          <p class="mono">{nodes.message}</p>
          <p>The page tries again by itself.</p>
        </Empty>
      );
    case "Live":
      return session.cluster.ready ? <Empty title="The cluster has no nodes" /> : <Empty title="Reading the cluster…" />;
  }
  return <Empty title="Reading the cluster…" />;
}

// pageLength is how many rows a list shows at first, and how many more with each click.
const pageLength = 200;

function NodeList({ cells, route, go, now, marked, onMark }: {
  cells: readonly Cell[];
  route: Route;
  go: Go;
  now: number;
  marked: ReadonlySet<string>;
  onMark: ((name: string) => void) | undefined;
}) {
  const [length, setLength] = useState(pageLength);
  const sorted = useMemo(() => [...cells].sort(worstFirst), [cells]);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="List of nodes">
      <table>
        <thead>
          <tr>
            {onMark && <th scope="col">Mark</th>}
            <th scope="col">Node</th>
            <th scope="col">State</th>
            <th scope="col">Reason</th>
            <th scope="col">Since</th>
            <th scope="col">NodeGroup</th>
            <th scope="col">MachineSet</th>
            <th scope="col">Zone</th>
            <th scope="col">Version</th>
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, length).map((cell) => (
            <tr key={cell.name} class={cell.name === route.selected ? "is-selected" : undefined}>
              {onMark && (
                <td>
                  <input type="checkbox" aria-label={`Mark ${cell.name}`} checked={marked.has(cell.name)} onChange={() => onMark(cell.name)} />
                </td>
              )}
              <th scope="row">
                <Link to={{ ...home, view: "node", node: cell.name }} go={go}>
                  {cell.name}
                </Link>
              </th>
              <td>
                <StateName state={cell.state} />
              </td>
              <td class="why-cell" title={cell.message}>
                {cell.reason === cell.state ? cell.message : cell.reason}
                {cell.notReady && cell.state !== "Unhealthy" && <span class="reason">not Ready</span>}
              </td>
              <td>{cell.since && <Age since={cell.since} now={now} />}</td>
              <td>{cell.nodeGroup}</td>
              <td>{cell.machineSet}</td>
              <td>{cell.zone}</td>
              <td>{cell.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > length && (
        <button type="button" class="button" onClick={() => setLength(length + pageLength)}>
          {more(pageLength, sorted.length - length)}
        </button>
      )}
    </div>
  );
}

function Panel({ cell, session, route, go, now, isMarked, onMark }: {
  cell: Cell;
  session: Session;
  route: Route;
  go: Go;
  now: number;
  isMarked: boolean;
  onMark: (() => void) | undefined;
}) {
  const waits = session.waits.values.filter((wait) => wait.node === cell.name);
  return (
    <aside class="panel" aria-label={`Node ${cell.name}`}>
      <div class="panel-head">
        <h2>{cell.name}</h2>
        <button type="button" class="close" aria-label="Close" onClick={() => go({ selected: "" }, true)}>
          ×
        </button>
      </div>
      <p>
        <StateName state={cell.state} /> <Reason state={cell.state} reason={cell.reason} />
        {cell.notReady && cell.state !== "Unhealthy" && <span class="reason">not Ready</span>}
      </p>
      {cell.message && <p class="message">{cell.message}</p>}
      <dl>
        <Fact name="Since">{cell.since && <Age since={cell.since} now={now} />}</Fact>
        <Fact name="NodeGroup">{cell.nodeGroup}</Fact>
        <Fact name="MachineSet">{cell.machineSet}</Fact>
        <Fact name="Machine">{cell.machine}</Fact>
        <Fact name="Zone">{cell.zone}</Fact>
        <Fact name="Kubelet">{cell.version}</Fact>
        <Fact name="Role">{cell.controlPlane ? "control plane" : ""}</Fact>
      </dl>
      {waits.length > 0 && <h3>Why not yet</h3>}
      {waits.map((wait) => (
        <div class="panel-wait" key={wait.id}>
          <UrgencyName urgency={wait.urgency} />
          <p>
            {wait.kind} <span class="reason">{wait.reason}</span>
          </p>
          {wait.message !== cell.message && <p>{whyOf(wait)}</p>}
          {wait.action && <p>{wait.action}</p>}
        </div>
      ))}
      <NodeActions session={session} names={[cell.name]} />
      {onMark && (
        <label class="check">
          <input type="checkbox" checked={isMarked} onChange={onMark} />
          Marked for an action with other nodes
        </label>
      )}
      <p>
        <Link class="button primary" to={{ ...home, view: "node", node: cell.name }} go={go}>
          Open the node's page
        </Link>
      </p>
      {route.group === "nodeGroup" && cell.nodeGroup && (
        <p>
          <Link to={{ ...home, view: "waits", query: cell.nodeGroup }} go={go}>
            What waits in NodeGroup {cell.nodeGroup}
          </Link>
        </p>
      )}
    </aside>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return children ? (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  ) : null;
}
