import type { ComponentChildren } from "preact";

import type { Part } from "./progress";
import { format, type Route } from "./route";
import { infoOf, urgencyOf } from "./states";
import { age, clock } from "./time";
import type { NodeState, Urgency } from "./types";

export type Go = (route: Partial<Route>, replace?: boolean) => void;

// Link goes to a route without loading the page again. The browser opens it in another tab when it is asked to.
export function Link({ to, go, children, ...rest }: {
  to: Route;
  go: Go;
  children: ComponentChildren;
  class?: string;
  "aria-current"?: "page" | undefined;
}) {
  return (
    <a
      href={format(to)}
      {...rest}
      onClick={(event) => {
        if (event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) {
          event.preventDefault();
          go(to);
        }
      }}
    >
      {children}
    </a>
  );
}

// StateMark is the colour and the letter of a state.
export function StateMark({ state }: { state: NodeState }) {
  return (
    <span class={`mark state-${state}`} aria-hidden="true">
      {infoOf(state).letter}
    </span>
  );
}

export function StateName({ state }: { state: NodeState }) {
  return (
    <span class="state-name">
      <StateMark state={state} /> {infoOf(state).label}
    </span>
  );
}

// Reason is why a node has its state, unless the state says so already.
export function Reason({ state, reason }: { state: NodeState; reason?: string | undefined }) {
  return reason && reason !== state ? <span class="reason">{reason}</span> : null;
}

export function UrgencyName({ urgency }: { urgency: Urgency }) {
  const info = urgencyOf(urgency);
  return (
    <span class={`urgency urgency-${urgency}`} title={info.meaning}>
      <span aria-hidden="true">{info.letter}</span> {info.label}
    </span>
  );
}

// Age is how long ago a time is. The exact time is its title.
export function Age({ since, now }: { since?: string | undefined; now: number }) {
  const text = age(since, now);
  return text === "" ? (
    <span class="quiet">unknown</span>
  ) : (
    <time dateTime={since} title={clock(since)}>
      {text}
    </time>
  );
}

// Toggle is a button that filters.
export function Toggle({ on, onClick, children, title, disabled }: {
  on: boolean;
  onClick: () => void;
  children: ComponentChildren;
  title?: string;
  disabled?: boolean;
}) {
  return (
    <button type="button" class="chip" aria-pressed={on} onClick={onClick} title={title} disabled={disabled}>
      {children}
    </button>
  );
}

export function Search({ value, onInput, label, hint }: { value: string; onInput: (value: string) => void; label: string; hint?: string }) {
  return (
    <label class="search">
      <span class="visually-hidden">{label}</span>
      <input
        id="search"
        type="search"
        value={value}
        placeholder={hint ?? label}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

// Bar shows parts of a whole. Its label says the same.
export function Bar({ parts, whole, label }: { parts: readonly Part[]; whole: number; label: string }) {
  return (
    <div class="bar" role="img" aria-label={label}>
      {parts.map((part) => (
        <span key={part.name + part.label} class={`part is-${part.name}`} style={{ width: `${(part.count / whole) * 100}%` }} />
      ))}
    </div>
  );
}

// Names are names of objects, the first ones at once and all of them on demand.
export function Names({ names, what }: { names: readonly string[]; what: string }) {
  const few = 3;
  if (names.length <= few) {
    return <span class="names">{names.join(", ")}</span>;
  }
  return (
    <details class="names">
      <summary>
        {names.slice(0, few).join(", ")} and {names.length - few} more {what}
      </summary>
      {names.slice(few, maxNames).join(", ")}
      {names.length > maxNames && ` and ${names.length - maxNames} more`}
    </details>
  );
}

// maxNames is how many names are shown at most.
const maxNames = 1000;
