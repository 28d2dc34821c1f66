import { useEffect, useState } from "preact/hooks";

import type { Session } from "../api";
import { Age, Empty, Link, Reason, Search, StateName, Toggle, UrgencyName, type Go } from "../components";
import { home, toggle, type Route } from "../route";
import { clock } from "../time";
import type { Condition, Entry, NodePage } from "../types";
import { whyOf } from "../waits";
import { NodeActions } from "./action";
import { Drain } from "./drain";
import { Timeline } from "./timeline";

// NodeView reads the document of a node, and again when the fleet's cell or the waits of the node have changed.
export function NodeView({ session, route, go, now }: { session: Session; route: Route; go: Go; now: number }) {
  const name = route.node;
  const cell = session.cells.get(name);
  const [page, setPage] = useState<NodePage>();
  const [failure, setFailure] = useState("");
  const waits = session.waits.values.filter((wait) => wait.node === name);
  const version = JSON.stringify([cell, waits.map((wait) => [wait.id, wait.reason, wait.message])]);

  useEffect(() => {
    const stop = new AbortController();
    session
      .node(name, stop.signal)
      .then((read) => {
        setPage(read);
        setFailure("");
      })
      .catch((error: unknown) => {
        if (!stop.signal.aborted) {
          setFailure(error instanceof Error ? error.message : String(error));
        }
      });
    return () => stop.abort();
  }, [name, version]);

  const shown = page?.explanation.name === name ? page : undefined;
  const back = { ...home, selected: name };
  if (!shown) {
    return (
      <div class="view node">
        <p>
          <Link to={back} go={go}>
            ← Fleet
          </Link>
        </p>
        {failure ? (
          <Empty title={`Node ${name} cannot be shown`}>
            <p class="mono">{failure}</p>
          </Empty>
        ) : (
          <Empty title={`Reading node ${name}…`} />
        )}
      </div>
    );
  }
  const { explanation } = shown;
  // What a wait says is not said again.
  const isTold = (message: string | undefined) => waits.some((wait) => wait.message === message);
  return (
    <div class="view node">
      <p>
        <Link to={back} go={go}>
          ← Fleet
        </Link>
      </p>
      <div class="node-head">
        <h1>{name}</h1>
        {cell && <StateName state={cell.state} />}
        {cell && <Reason state={cell.state} reason={cell.reason} />}
      </div>
      {cell?.message && !isTold(cell.message) && <p class="message">{cell.message}</p>}
      <NodeActions session={session} names={[name]} />
      {failure && <p class="notice">Not up to date: {failure}</p>}
      {[...(shown.notes ?? []), ...(explanation.notes ?? [])].map((note) => (
        <p class="notice" key={note}>
          {note}
        </p>
      ))}
      <dl class="facts">
        <Fact name="NodeGroup">{explanation.nodeGroup ?? "none"}</Fact>
        <Fact name="MachineSet">{explanation.machineSet ?? cell?.machineSet ?? "none"}</Fact>
        <Fact name="Machine">{explanation.machine ?? cell?.machine ?? "none"}</Fact>
        <Fact name="Zone">{cell?.zone ?? "none"}</Fact>
        <Fact name="Kubelet">{cell?.version ?? "unknown"}</Fact>
        <Fact name="Age">
          <Age since={shown.created} now={now} />
        </Fact>
        <Fact name="Lease">{leaseText(shown)}</Fact>
      </dl>
      <section>
        <h2>Why not yet</h2>
        {waits.length === 0 && <p class="quiet">Nothing of this node waits.</p>}
        {waits.map((wait) => (
          <article class={`wait edge-${wait.urgency}`} key={wait.id}>
            <div class="wait-head">
              <UrgencyName urgency={wait.urgency} />
              <h3>
                <span class="kind">{wait.kind}</span> {wait.name}
              </h3>
              <span class="since">
                <Age since={wait.since} now={now} />
              </span>
            </div>
            <p class="why">
              <span class="reason">{wait.reason}</span> {whyOf(wait)}
            </p>
            <p class="advice">
              {wait.action}{" "}
              {wait.runbook && (
                <a href={wait.runbook} target="_blank" rel="noreferrer">
                  Runbook<span class="visually-hidden"> for {wait.reason}, in a new tab</span>
                </a>
              )}
            </p>
          </article>
        ))}
      </section>
      {shown.drain && <Drain drain={shown.drain} showsMessage={!isTold(shown.drain.message)} now={now} />}
      <Timeline moments={shown.timeline} now={now} />
      <Ownership entries={explanation.entries} now={now} />
      <Conditions title="Conditions of the Node" conditions={shown.conditions} now={now} />
      {shown.machineConditions && <Conditions title="Conditions of the Machine" conditions={shown.machineConditions} now={now} />}
    </div>
  );
}

function leaseText(page: NodePage): string {
  const { lease } = page;
  if (!lease?.holder) {
    return "none";
  }
  const purpose = lease.object ? ` for ${lease.object}` : "";
  return `${lease.holder}${purpose}, ${lease.valid ? "until" : "expired"} ${clock(lease.expires)}`;
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

// standings are what a standing of an entry means, for people; the others say it themselves.
const standings: Record<string, string> = {
  InSync: "as declared",
  Differs: "differs; Drover will change it",
  Missing: "missing; Drover will add it",
  Leaving: "no longer declared; Drover will remove it",
  Conflict: "another writer has set another value",
  Protected: "belongs to the system",
  Once: "for new Nodes only",
  Undeclared: "not declared",
};

const owners: Record<string, string> = {
  Record: "Drover's record",
  Legacy: "managed-node-metadata-operator",
  GivenOnce: "Drover, once",
  Released: "released by Drover",
  Other: "another writer",
  None: "nobody",
};

function ownerOf(entry: Entry): string {
  switch (entry.owner) {
    case "MachineSet":
      return `MachineSet ${entry.machineSet ?? ""}`;
    case "NodeGroup":
      return `NodeGroup ${entry.nodeGroup ?? ""}`;
  }
  return owners[entry.owner] ?? entry.owner;
}

function isDrovers(entry: Entry): boolean {
  return !["Other", "None"].includes(entry.owner) || entry.standing !== "Undeclared";
}

function Ownership({ entries, now }: { entries: Entry[]; now: number }) {
  const [kinds, setKinds] = useState<string[]>([]);
  const [query, setQuery] = useState("");
  const [onlyDrover, setOnlyDrover] = useState(false);
  const shown = entries.filter(
    (entry) =>
      (kinds.length === 0 || kinds.includes(entry.kind)) &&
      (!onlyDrover || isDrovers(entry)) &&
      `${entry.key} ${entry.value ?? ""} ${ownerOf(entry)}`.toLowerCase().includes(query.toLowerCase()),
  );
  return (
    <section>
      <h2>Who owns what</h2>
      <div class="toolbar">
        <div class="chips" role="group" aria-label="Kinds; choose some to filter">
          {[...new Set(entries.map((entry) => entry.kind))].map((kind) => (
            <Toggle key={kind} on={kinds.includes(kind)} onClick={() => setKinds(toggle(kinds, kind))}>
              {kind}s <b>{entries.filter((entry) => entry.kind === kind).length}</b>
            </Toggle>
          ))}
          <Toggle on={onlyDrover} onClick={() => setOnlyDrover(!onlyDrover)}>
            Declared or Drover's
          </Toggle>
        </div>
        <Search value={query} label="Search keys, values and owners" onInput={setQuery} />
      </div>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Labels, annotations and taints">
        <table>
          <thead>
            <tr>
              <th scope="col">Kind</th>
              <th scope="col">Key</th>
              <th scope="col">Value</th>
              <th scope="col">Owner</th>
              <th scope="col">Last written by</th>
              <th scope="col">Declared</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((entry) => (
              <tr key={`${entry.kind} ${entry.key}`}>
                <td>{entry.kind}</td>
                <th scope="row" class="mono">
                  {entry.key}
                </th>
                <td class="mono value">{entry.value ?? <span class="quiet">none</span>}</td>
                <td class="line">{ownerOf(entry)}</td>
                <td class="line">
                  {entry.managers?.[0]?.name}
                  {entry.managers?.[0]?.time && (
                    <span class="quiet" title="The Node says when a writer last changed one of its keys, not which">
                      , last write <Age since={entry.managers[0].time} now={now} /> ago
                    </span>
                  )}
                </td>
                <td class={["Conflict", "Differs", "Missing", "Leaving"].includes(entry.standing) ? "attention" : "quiet"}>
                  {standings[entry.standing] ?? entry.standing}
                  {entry.declared !== undefined && entry.declared !== entry.value && <span class="mono"> {entry.declared}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {shown.length === 0 && <p class="quiet">No label, annotation or taint matches.</p>}
      </div>
    </section>
  );
}

function Conditions({ title, conditions, now }: { title: string; conditions: Condition[]; now: number }) {
  return (
    <section>
      <h2>{title}</h2>
      {conditions.length === 0 ? (
        <p class="quiet">There are none.</p>
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={title}>
          <table>
            <thead>
              <tr>
                <th scope="col">Type</th>
                <th scope="col">Status</th>
                <th scope="col">Since</th>
                <th scope="col">Reason</th>
                <th scope="col">Message</th>
              </tr>
            </thead>
            <tbody>
              {conditions.map((condition) => (
                <tr key={condition.type}>
                  <th scope="row">{condition.type}</th>
                  <td>{condition.status}</td>
                  <td>
                    <Age since={condition.since} now={now} />
                  </td>
                  <td>{condition.reason}</td>
                  <td class="value">{condition.message}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
