import { useEffect, useRef, useState } from "preact/hooks";

import type { Session } from "../api";
import { Names } from "../components";
import type { Action, ActionResult } from "../types";

// maxTargets is how many objects an action may have.
export const maxTargets = 200;

const actions: Record<Action["action"], { label: string; done: string }> = {
  pause: { label: "Pause", done: "Paused" },
  resume: { label: "Resume", done: "Resumed" },
  startMaintenance: { label: "Start maintenance", done: "Maintenance started" },
  endMaintenance: { label: "End maintenance", done: "Maintenance ended" },
};

interface Props {
  session: Session;
  action: Action["action"];
  // targets are names of nodes for a maintenance, and KIND/NAME for pause and resume.
  targets: string[];
  namespace?: string | undefined;
}

// ActionButton opens the dialog of an action. There is none unless the plugin may write.
export function ActionButton(props: Props) {
  const [open, setOpen] = useState(false);
  if (!props.session.cluster.write) {
    return null;
  }
  return (
    <>
      <button type="button" class="button small" onClick={() => setOpen(true)} disabled={props.targets.length === 0 || props.targets.length > maxTargets}>
        {actions[props.action].label}…
      </button>
      {open && <ActionDialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

// NodeActions are what can be done with nodes. One node can start a maintenance or end one.
export function NodeActions({ session, names }: { session: Session; names: string[] }) {
  const nodes = names.map((name) => `node/${name}`);
  const { values, omitted } = session.activities;
  const known = names.length === 1 && session.cluster.complete && omitted === 0;
  const maintained = values.some((activity) => activity.type === "Drain" && activity.node === names[0]);
  return session.cluster.write ? (
    <div class="actions" role="group" aria-label={names.length === 1 ? `Actions for node ${names[0]}` : `Actions for ${names.length} nodes`}>
      {!(known && maintained) && <ActionButton session={session} action="startMaintenance" targets={names} />}
      {!(known && !maintained) && <ActionButton session={session} action="endMaintenance" targets={names} />}
      <ActionButton session={session} action="pause" targets={nodes} />
      <ActionButton session={session} action="resume" targets={nodes} />
    </div>
  ) : null;
}

// checkDelay is how long the form has to stay as it is until the API server checks it, in milliseconds.
const checkDelay = 400;

type Answer = { body: string; result?: ActionResult; failure?: string };

// ActionDialog shows the command of an action and what the API server says about a dry run, and only then lets the user carry it out.
function ActionDialog({ session, action, targets, namespace, onClose }: Props & { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState("");
  const [deadline, setDeadline] = useState("");
  const [force, setForce] = useState(false);
  const [checked, setChecked] = useState<Answer>();
  const [done, setDone] = useState<Answer>();
  const [busy, setBusy] = useState(false);
  const { label } = actions[action];
  const startsMaintenance = action === "startMaintenance";
  const hasReason = startsMaintenance || (action === "pause" && targets.some((target) => !target.startsWith("nodegroup/")));
  const request: Action = {
    action,
    targets,
    ...(namespace && { namespace }),
    ...(hasReason && reason.trim() && { reason: reason.trim() }),
    ...(startsMaintenance && deadline.trim() && { deadline: deadline.trim(), ...(force && { force }) }),
  };
  const body = JSON.stringify(request);

  useEffect(() => dialog.current!.showModal(), []);

  const ask = async (dryRun: boolean, signal: AbortSignal): Promise<Answer> => {
    try {
      return { body, result: await session.act(request, dryRun, signal) };
    } catch (error) {
      return { body, failure: error instanceof Error ? error.message : String(error) };
    }
  };

  useEffect(() => {
    const stop = new AbortController();
    const check = async () => {
      const answer = await ask(true, stop.signal);
      if (!stop.signal.aborted) {
        setChecked(answer);
      }
    };
    const timer = setTimeout(() => void check(), checked ? checkDelay : 0);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [body]);

  const carryOut = async () => {
    setBusy(true);
    // Closing the dialog does not stop what the API server has begun.
    setDone(await ask(false, new AbortController().signal));
    setBusy(false);
  };

  const isChecked = checked?.body === body;
  const mayCarryOut = isChecked && !!checked?.result && checked.result.output.length > 0 && !busy;
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="dialog-title" onClose={onClose}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (mayCarryOut && !done) {
            void carryOut();
          }
        }}
      >
        <h2 id="dialog-title">{label}</h2>
        <div class="targets">
          <Names names={targets} what="objects" />
        </div>
        {!done && hasReason && (
          <label class="field">
            Reason, which others see
            <input type="text" value={reason} maxLength={500} onInput={(event) => setReason(event.currentTarget.value)} />
          </label>
        )}
        {!done && startsMaintenance && (
          <>
            <label class="field">
              Deadline of the drain, such as 30m; none if it is empty
              <input type="text" value={deadline} maxLength={20} onInput={(event) => setDeadline(event.currentTarget.value)} />
            </label>
            <label class="check">
              <input
                type="checkbox"
                checked={force}
                disabled={deadline.trim() === ""}
                onChange={(event) => setForce(event.currentTarget.checked)}
              />
              Delete the Pods that are left after the deadline
            </label>
          </>
        )}
        {done ? (
          <Outcome answer={done} title={done.result?.errors.length === 0 ? actions[action].done : "Not everything was done"} />
        ) : isChecked ? (
          <Outcome answer={checked} title="The API server has checked this. The command would print:" />
        ) : (
          <p role="status">The API server checks…</p>
        )}
        <div class="actions">
          {!done && (
            <button type="submit" class="button primary" disabled={!mayCarryOut}>
              {busy ? "…" : label}
            </button>
          )}
          <button type="button" class="button" onClick={() => dialog.current!.close()}>
            {done ? "Close" : "Cancel"}
          </button>
        </div>
      </form>
    </dialog>
  );
}

function Outcome({ answer, title }: { answer: Answer | undefined; title: string }) {
  const { result, failure } = answer ?? {};
  return (
    <div class="outcome" role="status">
      {failure && <p class="attention">{failure}</p>}
      {result && (
        <>
          <p class="quiet">The same in a terminal:</p>
          <pre class="command" tabIndex={0} aria-label="Command">
            {result.command}
          </pre>
          {result.output.length > 0 && <Lines title={title} lines={result.output} />}
          {result.errors.length > 0 && <Lines title={result.dryRun ? "This would be refused" : "Refused"} lines={result.errors} isBad />}
        </>
      )}
    </div>
  );
}

function Lines({ title, lines, isBad }: { title: string; lines: string[]; isBad?: boolean }) {
  return (
    <>
      <h3 class={isBad ? "attention" : undefined}>{title}</h3>
      <ul class="lines" tabIndex={0} aria-label={title}>
        {lines.map((line, place) => (
          <li key={place}>{line}</li>
        ))}
      </ul>
    </>
  );
}
