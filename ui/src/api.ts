import { LiveList } from "./livelist";
import { tokenOf } from "./route";
import { EventParser } from "./sse";
import { byUrgency } from "./progress";
import type {
  Action, ActionResult, Activity, Budget, Calendar, Cell, Changes, Cluster, NodePage, PlanPreview, ProgressChanges, Wait,
} from "./types";
import { worstFirst } from "./waits";

export type Connection = "connecting" | "live" | "lost" | "denied";

const storageKey = "drover-token";

// takeToken returns the token: from the address that the plugin has printed, or else the one that this browser had before. It removes the token from the
// address, so that a copied address has none. Storage belongs to one port, unlike cookies.
export function takeToken(): string {
  const given = tokenOf(location.hash);
  if (given !== "") {
    localStorage.setItem(storageKey, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return given || (localStorage.getItem(storageKey) ?? "");
}

const delays = [500, 1000, 2000, 5000];

// Session is what the page knows, kept up to date by one stream.
export class Session {
  readonly cells = new LiveList<Cell>((cell) => cell.name, (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  readonly waits = new LiveList<Wait>((wait) => wait.id, worstFirst);
  readonly activities = new LiveList<Activity>((activity) => activity.id, byUrgency);
  readonly budgets = new LiveList<Budget>((budget) => budget.nodeGroup, (a, b) => a.nodeGroup.localeCompare(b.nodeGroup, "en", { numeric: true }));
  calendar: Calendar | undefined;
  cluster: Cluster = { ready: false, complete: false, sources: [] };
  connection: Connection = "connecting";
  // changed is when the last event came.
  changed = 0;

  // manifest is what the plan view shows, also after another view.
  manifest = "";

  constructor(
    private readonly token: string,
    private readonly notify: () => void,
  ) {}

  private headers(): Record<string, string> {
    return { Authorization: `Bearer ${this.token}` };
  }

  // follow reads the stream, and begins again when it ends, until the signal.
  async follow(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        await this.read(signal, () => {
          failures = 0;
        });
      } catch (error) {
        if (error instanceof Denied) {
          this.set("denied");
          return;
        }
      }
      if (signal.aborted) {
        return;
      }
      this.set(failures > 1 ? "lost" : "connecting");
      await new Promise((done) => setTimeout(done, delays[Math.min(failures, delays.length - 1)]));
    }
  }

  private set(connection: Connection): void {
    this.connection = connection;
    this.notify();
  }

  private async read(signal: AbortSignal, opened: () => void): Promise<void> {
    const answer = await fetch("api/stream", { headers: this.headers(), signal, cache: "no-store" });
    if (answer.status === 401) {
      throw new Denied();
    }
    if (!answer.ok || !answer.body) {
      throw new Error(await answer.text());
    }
    opened();
    const parser = new EventParser();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) {
        return;
      }
      for (const event of parser.push(value)) {
        this.take(event.name, JSON.parse(event.data));
      }
      this.set("live");
    }
  }

  private take(name: string, data: unknown): void {
    this.changed = Date.now();
    switch (name) {
      case "cluster":
        this.cluster = data as Cluster;
        break;
      case "fleet":
        this.cells.apply(data as Changes<Cell>);
        break;
      case "waits":
        this.waits.apply(data as Changes<Wait>);
        break;
      case "progress": {
        const progress = data as ProgressChanges;
        if (progress.items) {
          this.activities.apply(progress.items);
        }
        if (progress.budgets) {
          this.budgets.apply(progress.budgets);
        }
        this.calendar = progress.calendar ?? this.calendar;
        break;
      }
    }
  }

  // node reads the document of a node.
  node(name: string, signal: AbortSignal): Promise<NodePage> {
    return this.ask(`api/nodes/${encodeURIComponent(name)}`, { signal });
  }

  // plan returns what would change if a manifest were applied.
  plan(manifest: string, signal: AbortSignal): Promise<PlanPreview> {
    return this.ask("api/plan", { method: "POST", body: manifest, signal }, "application/yaml");
  }

  // act does something, or has the API server check it.
  act(action: Action, dryRun: boolean, signal: AbortSignal): Promise<ActionResult> {
    const body = JSON.stringify(action);
    return this.ask(`api/actions${dryRun ? "?dryRun=true" : ""}`, { method: "POST", body, signal }, "application/json");
  }

  private async ask<T>(path: string, request: RequestInit, mediaType?: string): Promise<T> {
    const headers = { ...this.headers(), ...(mediaType && { "Content-Type": mediaType }) };
    const answer = await fetch(path, { ...request, headers, cache: "no-store" });
    if (!answer.ok) {
      throw new Error((await answer.text()).trim() || `the plugin answers with status ${answer.status}`);
    }
    return (await answer.json()) as T;
  }
}

class Denied extends Error {}
