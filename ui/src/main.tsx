import { render } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

import { Session, takeToken } from "./api";
import { Empty, Link } from "./components";
import { format, home, parse, type Route } from "./route";
import type { Availability, Source } from "./types";
import "./style.css";
import { FleetView } from "./views/fleet";
import { NodeView } from "./views/node";
import { PlanView } from "./views/plan";
import { ProgressView } from "./views/progress";
import { WaitsView } from "./views/waits";

const dark = matchMedia("(prefers-color-scheme: dark)");

function App({ token }: { token: string }) {
  const [, setVersion] = useState(0);
  const [route, setRoute] = useState(() => parse(location.search));
  const [now, setNow] = useState(Date.now());
  const [theme, setTheme] = useState(dark.matches ? "dark" : "light");
  const [session] = useState(() => new Session(token, () => requestRender()));

  // Many events make one picture.
  let frame = 0;
  const requestRender = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => setVersion((version) => version + 1));
  };

  useEffect(() => {
    const stop = new AbortController();
    void session.follow(stop.signal);
    const clock = setInterval(() => setNow(Date.now()), 10_000);
    const back = () => setRoute(parse(location.search));
    const recolor = () => setTheme(dark.matches ? "dark" : "light");
    addEventListener("popstate", back);
    dark.addEventListener("change", recolor);
    return () => {
      stop.abort();
      clearInterval(clock);
      removeEventListener("popstate", back);
      dark.removeEventListener("change", recolor);
    };
  }, []);

  // A key may come before the picture of the last change: the handler must know that change.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      // A dialog has its own keys.
      const inField = event.target instanceof HTMLElement && event.target.closest("input, select, textarea, dialog") !== null;
      if (event.key === "/" && !inField) {
        event.preventDefault();
        document.getElementById("search")?.focus();
      } else if (event.key === "Escape" && route.selected !== "" && !inField) {
        go({ selected: "" }, true);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });

  const go = (change: Partial<Route>, replace = false) => {
    const next = { ...route, ...change };
    history[replace ? "replaceState" : "pushState"](null, "", format(next));
    if (next.view !== route.view || next.node !== route.node) {
      scrollTo(0, 0);
    }
    setRoute(next);
  };

  const running = session.activities.values.filter((activity) => activity.state !== "Done").length;
  const stopped = session.waits.values.filter((wait) => wait.urgency === "Stopped").length;
  useEffect(() => {
    const name = { fleet: "Fleet", waits: "Why not yet", progress: "Progress", plan: "Plan", node: route.node }[route.view];
    document.title = `${stopped > 0 ? `(${stopped}) ` : ""}${name} · Drover`;
  });

  if (token === "" || session.connection === "denied") {
    return (
      <main>
        <Empty title="This page needs its address">
          <p>
            Open the address that <code>kubectl drover ui</code> has printed. It has a token, which changes whenever the command starts.
          </p>
        </Empty>
      </main>
    );
  }
  const views = { session, route, go, now, theme };
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header>
        <span class="brand">
          <span class="logo" aria-hidden="true" />
          Drover
        </span>
        <nav aria-label="Views">
          <Link to={home} go={go} aria-current={route.view === "fleet" ? "page" : undefined}>
            Fleet
          </Link>
          <Link to={{ ...home, view: "waits" }} go={go} aria-current={route.view === "waits" ? "page" : undefined}>
            Why not yet
            {session.waits.values.length > 0 && (
              <span class={stopped > 0 ? "badge bad" : "badge"} title={stopped > 0 ? "need a person" : "wait"}>
                {stopped > 0 ? stopped : session.waits.values.length}
                <span class="visually-hidden">{stopped > 0 ? " need a person" : " wait"}</span>
              </span>
            )}
          </Link>
          <Link to={{ ...home, view: "progress" }} go={go} aria-current={route.view === "progress" ? "page" : undefined}>
            Progress
            {running > 0 && (
              <span class="badge" title="in progress">
                {running}
                <span class="visually-hidden"> in progress</span>
              </span>
            )}
          </Link>
          <Link to={{ ...home, view: "plan" }} go={go} aria-current={route.view === "plan" ? "page" : undefined}>
            Plan
          </Link>
        </nav>
        <ConnectionState session={session} />
      </header>
      <Notices session={session} />
      <main id="main" tabIndex={-1}>
        {route.view === "fleet" && <FleetView {...views} />}
        {route.view === "waits" && <WaitsView {...views} />}
        {route.view === "progress" && <ProgressView {...views} />}
        {route.view === "plan" && <PlanView session={session} go={go} />}
        {route.view === "node" && <NodeView {...views} />}
      </main>
    </>
  );
}

function ConnectionState({ session }: { session: Session }) {
  const failing = (session.cluster.sources ?? []).some((source) => source.availability === "Failing");
  const [kind, text] =
    session.connection === "lost"
      ? ["bad", "Disconnected from kubectl drover ui"]
      : session.connection === "connecting"
        ? ["busy", "Connecting…"]
        : failing
          ? ["bad", "The cluster does not answer"]
          : session.cluster.complete
            ? ["good", "Live"]
            : ["busy", "Reading the cluster…"];
  return (
    <span class={`connection is-${kind}`} role="status">
      {text}
    </span>
  );
}

const missing: [Availability, string][] = [
  ["Forbidden", "You may not read"],
  ["Failing", "Not up to date"],
  ["NotServed", "Not in this cluster"],
];

// Notices say which kinds the page cannot show.
function Notices({ session }: { session: Session }) {
  const sources = session.cluster.sources ?? [];
  const lines = missing
    .map(([availability, text]) => ({ text, of: sources.filter((source) => source.availability === availability) }))
    .filter((line) => line.of.length > 0);
  const incomplete = sources.filter((source) => source.incomplete);
  const narrowed = sources.filter((source) => source.namespace && source.availability === "Live" && !source.resource.startsWith("leases."));
  if (lines.length + incomplete.length + narrowed.length === 0) {
    return null;
  }
  const kindOf = (source: Source) => source.resource.replace(/\..*/, "");
  const urgent = sources.some((source) => source.availability === "Forbidden" || source.availability === "Failing") || incomplete.length > 0;
  return (
    <details class={urgent ? "notices is-urgent" : "notices"}>
      <summary>
        {[
          ...lines.map((line) => `${line.text}: ${[...new Set(line.of.map(kindOf))].join(", ")}`),
          ...incomplete.map((source) => `More than this page keeps: ${kindOf(source)}`),
          ...narrowed.slice(0, 1).map((source) => `Only namespace ${source.namespace}`),
        ].join(" · ")}
      </summary>
      <ul>
        {sources
          .filter((source) => source.availability !== "Live" || source.incomplete || source.namespace)
          .map((source) => (
            <li key={source.resource}>
              <code>{source.resource}</code> {source.availability === "NotServed" ? "is not served by this cluster" : source.message || "is read"}
              {source.namespace && ` in namespace ${source.namespace} only`}
              {source.incomplete && `; ${source.objects} objects are shown, there are more`}
            </li>
          ))}
      </ul>
    </details>
  );
}

render(<App token={takeToken()} />, document.getElementById("app")!);
