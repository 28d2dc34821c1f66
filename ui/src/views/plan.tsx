import { useEffect, useRef, useState } from "preact/hooks";

import type { Session } from "../api";
import { Empty, Link, Names, type Go } from "../components";
import { home } from "../route";
import type { MachineSetPlan, NodeGroupPlan, PlanGroup, PlanPreview, PlanProblem, PlanSummary, ReplacementPlan } from "../types";
import { quantity } from "../words";

// maxManifest is how long a manifest may be, in bytes.
const maxManifest = 1 << 20;

type Answer = { preview?: PlanPreview; failure?: string };

// PlanView shows what a manifest would change, before it is applied.
export function PlanView({ session, go }: { session: Session; go: Go }) {
  const [manifest, setManifest] = useState(session.manifest);
  const [answer, setAnswer] = useState<Answer>();
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const request = useRef<AbortController | undefined>(undefined);

  useEffect(() => () => request.current?.abort(), []);

  const change = (text: string) => {
    session.manifest = text;
    setManifest(text);
  };

  const preview = async (text: string) => {
    request.current?.abort();
    const { signal } = (request.current = new AbortController());
    setBusy(true);
    let got: Answer;
    try {
      got = new Blob([text]).size > maxManifest ? { failure: "The manifest is longer than 1 MiB." } : { preview: await session.plan(text, signal) };
    } catch (error) {
      got = { failure: error instanceof Error ? error.message : String(error) };
    }
    if (!signal.aborted) {
      setAnswer(got);
      setBusy(false);
    }
  };

  const take = async (file: File | undefined) => {
    setOver(false);
    if (!file) {
      return;
    }
    if (file.size > maxManifest) {
      setAnswer({ failure: `${file.name} is longer than 1 MiB.` });
      return;
    }
    const text = await file.text();
    change(text);
    void preview(text);
  };

  return (
    <div class="view plan">
      <div class="intro">
        <h1>Plan</h1>
        <p class="quiet">What a changed NodeGroup or MachineSet would do to nodes, before you apply it. Nothing is written.</p>
      </div>
      <form
        class={over ? "drop is-over" : "drop"}
        onSubmit={(event) => {
          event.preventDefault();
          void preview(manifest);
        }}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          void take(event.dataTransfer?.files[0]);
        }}
      >
        <label for="manifest">Manifest, in YAML or JSON: paste it, or drop a file here</label>
        <textarea
          id="manifest"
          placeholder="kubectl get nodegroup NAME -o yaml prints what is applied now: change it, and paste it here"
          rows={14}
          spellcheck={false}
          autocomplete="off"
          value={manifest}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              void preview(manifest);
            }
          }}
        />
        <div class="actions">
          <button type="submit" class="button primary" disabled={manifest.trim() === "" || busy}>
            {busy ? "Planning…" : "Preview"}
          </button>
          <label class="button file">
            Choose a file
            <input
              type="file"
              class="visually-hidden"
              accept=".yaml,.yml,.json"
              onChange={(event) => {
                void take(event.currentTarget.files?.[0]);
                event.currentTarget.value = "";
              }}
            />
          </label>
        </div>
      </form>
      <div aria-live="polite">
        {answer?.failure && (
          <div class="failure">
            <h2>This cannot be planned</h2>
            <pre>{answer.failure}</pre>
          </div>
        )}
        {answer?.preview && <Preview preview={answer.preview} go={go} />}
      </div>
    </div>
  );
}

function Preview({ preview, go }: { preview: PlanPreview; go: Go }) {
  const { plan, warnings, command } = preview;
  return (
    <div class="preview">
      {warnings.map((warning) => (
        <p class="notice" key={warning}>
          {warning}
        </p>
      ))}
      <p class="quiet">The same in a terminal:</p>
      <pre class="command" tabIndex={0} aria-label="Command">
        {command}
      </pre>
      {!preview.changes && <Empty title="Nothing would change" />}
      {plan.kind === "PlanList" && (
        <>
          {plan.notes?.map((note) => (
            <p class="notice" key={note}>
              {note}
            </p>
          ))}
          {plan.items.map((item) => (
            <MachineSetSection key={`${item.namespace}/${item.name}`} plan={item} go={go} />
          ))}
          {plan.nodeGroups?.map((item) => <NodeGroupSection key={item.name} plan={item} go={go} />)}
        </>
      )}
      {plan.kind === "NodeGroupPlanList" && plan.items.map((item) => <NodeGroupSection key={item.name} plan={item} go={go} />)}
    </div>
  );
}

// counted are the numbers of a summary that are shown if they are not zero.
const counted: [keyof PlanSummary, string][] = [
  ["nodeWrites", "Nodes to write"],
  ["machineWrites", "Machines to write"],
  ["toReplace", "Machines to replace"],
  ["pending", "pending"],
  ["conflict", "in conflict"],
  ["refused", "refused"],
  ["held", "held"],
  ["paused", "paused"],
  ["released", "released"],
];

function Summary({ summary }: { summary: PlanSummary }) {
  return (
    <p class="numbers">
      <span>{quantity(summary.nodes, "node")}</span>
      {counted.map(([key, label]) =>
        summary[key] ? (
          <span key={key}>
            <b>{summary[key]}</b> {label}
          </span>
        ) : null,
      )}
      <span>{summary.synced} as declared</span>
    </p>
  );
}

function MachineSetSection({ plan, go }: { plan: MachineSetPlan; go: Go }) {
  const name = plan.name ? (plan.namespace ? `${plan.namespace}/${plan.name}` : plan.name) : "Nodes without a MachineSet";
  return (
    <section>
      <h2>
        {plan.name && <span class="kind">MachineSet</span>} {name}
      </h2>
      <Summary summary={plan.summary} />
      {plan.paused && <p class="notice">The MachineSet is paused: nothing is written until it is resumed.</p>}
      <Problems problems={plan.problems} />
      <Groups groups={plan.groups} go={go} />
      <Replacement plan={plan.replacement} />
    </section>
  );
}

function NodeGroupSection({ plan, go }: { plan: NodeGroupPlan; go: Go }) {
  const { disruption } = plan;
  return (
    <section>
      <h2>
        <span class="kind">NodeGroup</span> {plan.name}
      </h2>
      <Summary summary={plan.summary} />
      {plan.suspended && <p class="notice">The NodeGroup is suspended: nothing is written until it is resumed.</p>}
      {plan.notes?.map((note) => (
        <p class="notice" key={note}>
          {note}
        </p>
      ))}
      <Problems problems={plan.problems} />
      <dl class="facts">
        {plan.joining && plan.joining.length > 0 && <Fact name="Joining nodes" names={plan.joining} />}
        {plan.leaving && plan.leaving.length > 0 && <Fact name="Leaving nodes" names={plan.leaving} />}
        {disruption && (
          <div>
            <dt>Budget</dt>
            <dd>
              {disruption.unavailable} of {disruption.limit} unavailable ({disruption.maxUnavailable} of {disruption.expected} nodes)
              {!disruption.open && `, closed: ${disruption.closed ?? ""}`}
            </dd>
          </div>
        )}
        {plan.noExecute && (
          <div>
            <dt>NoExecute taints</dt>
            <dd>
              {plan.noExecute.pods} Pods have to leave
              {plan.noExecute.blocked > 0 && `, ${plan.noExecute.blocked} are blocked`}
              {plan.noExecute.lostPods > 0 && `, ${plan.noExecute.lostPods} do not come back`}
            </dd>
          </div>
        )}
      </dl>
      <Waves plan={plan} />
      <Groups groups={plan.changes} go={go} />
      <LabelUses plan={plan} />
      <Guards plan={plan} />
      <Replacement plan={plan.replacement} />
    </section>
  );
}

function Fact({ name, names }: { name: string; names: string[] }) {
  return (
    <div>
      <dt>
        {name} <b>{names.length}</b>
      </dt>
      <dd>
        <Names names={names} what="nodes" />
      </dd>
    </div>
  );
}

function Problems({ problems }: { problems: PlanProblem[] | undefined }) {
  return (
    <>
      {problems?.map((problem) => (
        <p class="notice" key={`${problem.kind} ${problem.key} ${problem.reason}`}>
          <span class="reason">{problem.reason}</span> {problem.kind} <span class="mono">{problem.key}</span>: {problem.message}
        </p>
      ))}
    </>
  );
}

// shownWaves is how many waves are shown at most.
const shownWaves = 50;

function Waves({ plan }: { plan: NodeGroupPlan }) {
  const { waves, wave } = plan;
  if (waves.length < 2) {
    return null;
  }
  return (
    <details open={waves.length <= 10}>
      <summary>
        {waves.length} waves{wave > 0 && `, ${wave} have begun`}
      </summary>
      <ol class="plan-waves">
        {waves.slice(0, shownWaves).map((each, place) => (
          <li key={place} class={place < wave ? "is-begun" : undefined}>
            {each.toWrite} of {each.nodes.length} nodes to write: <Names names={each.nodes} what="nodes" />
          </li>
        ))}
      </ol>
      {waves.length > shownWaves && <p class="quiet">{waves.length - shownWaves} more waves follow.</p>}
    </details>
  );
}

// operations are what is done with a key, with a sign that needs no colour.
const operations: Record<string, [string, string]> = {
  add: ["+", "add"],
  change: ["~", "change"],
  remove: ["−", "remove"],
  record: ["•", "record as owned"],
  forget: ["•", "no longer owned"],
};

function Groups({ groups, go }: { groups: PlanGroup[]; go: Go }) {
  return (
    <>
      {groups.map((group, place) => (
        <article class="plan-group" key={place}>
          <div class="wait-head">
            <span class="reason">{group.reason ? `${group.state}: ${group.reason}` : group.state}</span>
            <b>{quantity(group.nodes.length, "node")}</b>
            {group.nodes.length === 1 ? (
              <Link to={{ ...home, view: "node", node: group.nodes[0]! }} go={go}>
                {group.nodes[0]}
              </Link>
            ) : (
              <Names names={group.nodes} what="nodes" />
            )}
            {group.releaseDelay && <span class="quiet">after {group.releaseDelay}</span>}
          </div>
          <Problems problems={group.problems} />
          {group.changes.length > 0 && <ChangeTable group={group} />}
        </article>
      ))}
    </>
  );
}

function ChangeTable({ group }: { group: PlanGroup }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={`Changes of ${group.nodes.slice(0, 3).join(", ")}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Change</th>
            <th scope="col">Object</th>
            <th scope="col">Key</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {group.changes.map((change, place) => {
            const [sign, text] = operations[change.operation] ?? ["?", change.operation];
            return (
              <tr key={place} class={`operation-${change.operation}`}>
                <td>
                  <span class="sign" aria-hidden="true">
                    {sign}
                  </span>{" "}
                  {text}
                </td>
                <td>
                  {change.kind} of the {change.object}
                </td>
                <th scope="row" class="mono">
                  {change.key}
                </th>
                <td class="mono value before">
                  <Value of={change.from} />
                </td>
                <td class="mono value after">
                  <Value of={change.to} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

// Value is the value of a key; there may be none, and it may be empty.
function Value({ of }: { of: string | undefined }) {
  return of ? <>{of}</> : <span class="quiet">{of === undefined ? "none" : "empty"}</span>;
}

function LabelUses({ plan }: { plan: NodeGroupPlan }) {
  if (!plan.labelUses || plan.labelUses.length === 0) {
    return null;
  }
  return (
    <>
      <h3>Labels in use</h3>
      <ul class="lines">
        {plan.labelUses.map((use) => (
          <li key={use.label}>
            <span class="mono">{use.label}</span> on {use.nodes.length} nodes is used by
            {use.pods && use.pods.length > 0 && ` ${use.pods.length} Pods`}
            {use.volumes && use.volumes.length > 0 && ` ${use.volumes.length} volumes`}
            {use.confirm && "; the roll-out waits until you confirm the change"}
          </li>
        ))}
      </ul>
    </>
  );
}

function Guards({ plan }: { plan: NodeGroupPlan }) {
  if (!plan.guards || plan.guards.length === 0) {
    return null;
  }
  return (
    <details>
      <summary>Pods that NoExecute taints evict, on {plan.guards.length} nodes</summary>
      <ul class="lines">
        {plan.guards.slice(0, shownWaves).map((guard) => (
          <li key={guard.node}>
            <b>{guard.node}</b>: {guard.pods} Pods leave because of {guard.taints.join(", ")}
            {guard.held && `; held: ${guard.held}`}
            {guard.lostPods > 0 && `; ${guard.lostPods} do not come back`}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Replacement({ plan }: { plan: ReplacementPlan | undefined }) {
  return plan ? (
    <>
      <h3>Machines to replace</h3>
      <p>
        {plan.machines.length} Machines, {plan.maxInFlight} at a time with {plan.maxSurge} in addition
        {plan.suspended && "; suspended"}
        {plan.held && `; held: ${plan.held}`}
      </p>
      <Names names={plan.machines} what="Machines" />
    </>
  ) : null;
}
