import { useState } from "preact/hooks";

import { Age, Names } from "../components";
import { wait } from "../time";
import type { DrainStatus } from "../types";
import { more } from "../words";

// pageLength is how many Pods are shown at first, and how many more with each click.
const pageLength = 50;

// Drain shows the Pods that keep a node from draining, and their budgets.
export function Drain({ drain, showsMessage, now }: { drain: DrainStatus; showsMessage: boolean; now: number }) {
  const [length, setLength] = useState(pageLength);
  const staying = drain.pods.length - drain.evict.length;
  const drains = drain.maintenance !== undefined;
  const state = drain.phase ?? (drain.unschedulable ? "cordoned" : "not draining");
  return (
    <section>
      <h2>{drains ? "Drain" : "What a drain would do"}</h2>
      <p class="numbers">
        <span class="reason">{state}</span>
        <span>
          <b>{drain.total}</b> Pods on the node
        </span>
        <span>
          <b>{drain.evict.length}</b> can leave now
        </span>
        <span class={staying > 0 ? "attention" : undefined}>
          <b>{staying}</b> cannot
        </span>
        {drain.cordoned && (
          <span>
            cordoned for <Age since={drain.cordoned} now={now} />
          </span>
        )}
        {drain.deadline && <span>{wait(drain.deadline, now) ? `deadline in ${wait(drain.deadline, now)}` : "the deadline has passed"}</span>}
      </p>
      {drain.message && showsMessage && <p class="message">{drain.message}</p>}
      {drain.alone && <p class="notice">{drain.alone}</p>}
      {drain.mayReturn && drain.mayReturn.length > 0 && (
        <div class="notice">
          These Pods may come back to the node: <Names names={drain.mayReturn} what="Pods" />
        </div>
      )}
      {drain.budgets.length > 0 && <Budgets budgets={drain.budgets} />}
      {drain.pods.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Pods that have to leave">
          <table>
            <thead>
              <tr>
                <th scope="col">Pod</th>
                <th scope="col">Why it stays</th>
                <th scope="col">Details</th>
                <th scope="col">Until</th>
              </tr>
            </thead>
            <tbody>
              {drain.pods.slice(0, length).map((pod) => (
                <tr key={`${pod.namespace}/${pod.name}`}>
                  <th scope="row">
                    {pod.namespace}/{pod.name}
                  </th>
                  <td>
                    <span class="reason">{pod.reason}</span>
                  </td>
                  <td class="value">{pod.detail}</td>
                  <td>{pod.until && (wait(pod.until, now) ? `in ${wait(pod.until, now)}` : "now")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {drain.pods.length > length && (
        <button type="button" class="button" onClick={() => setLength(length + pageLength)}>
          {more(pageLength, drain.pods.length - length)}
        </button>
      )}
      {drain.pods.length === 0 && drain.total > 0 && <p class="quiet">No Pod keeps the node from draining.</p>}
    </section>
  );
}

function Budgets({ budgets }: { budgets: DrainStatus["budgets"] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="PodDisruptionBudgets">
      <table>
        <thead>
          <tr>
            <th scope="col">PodDisruptionBudget</th>
            <th scope="col">Healthy Pods it needs</th>
            <th scope="col">Has</th>
            <th scope="col">May be evicted now</th>
            <th scope="col">Pods on this node</th>
          </tr>
        </thead>
        <tbody>
          {budgets.map((budget) => (
            <tr key={budget.name}>
              <th scope="row">{budget.name}</th>
              <td class="number">{budget.needs}</td>
              <td class="number">{budget.has}</td>
              <td class={budget.allowed === 0 ? "number attention" : "number"}>{budget.allowed}</td>
              <td class="number">{budget.here}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
