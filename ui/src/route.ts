// What is in the address, so that a view can be linked.

export const groupings = ["nodeGroup", "machineSet", "zone", "version", "none"] as const;
export type Grouping = (typeof groupings)[number];

const views = ["fleet", "waits", "progress", "plan", "node"] as const;
export type View = (typeof views)[number];

export interface Route {
  view: View;
  // group, states, list and selected are of the fleet.
  group: Grouping;
  states: string[];
  list: boolean;
  selected: string;
  // urgencies and kinds are of the waits.
  urgencies: string[];
  kinds: string[];
  // types are of the progress, and finished shows what is done, too.
  types: string[];
  finished: boolean;
  // query is what is searched for, in the fleet, the waits and the progress.
  query: string;
  // node is the name of the node whose page is shown.
  node: string;
}

export const home: Route = {
  view: "fleet", group: "nodeGroup", states: [], list: false, selected: "", urgencies: [], kinds: [], types: [], finished: false, query: "", node: "",
};

// maxText is how long a text in an address can be: what others have put into a link is shown in full or not at all.
const maxText = 300;

function text(params: URLSearchParams, name: string): string {
  const value = params.get(name) ?? "";
  return value.length > maxText ? "" : value;
}

function words(params: URLSearchParams, name: string): string[] {
  return text(params, name).split(",").filter((word) => /^[A-Za-z]+$/.test(word));
}

// parse returns the route of the query of an address. What it does not know counts as not there.
export function parse(search: string): Route {
  const params = new URLSearchParams(search);
  const group = text(params, "group");
  const view = text(params, "view");
  const node = text(params, "node");
  return {
    view: views.find((known) => known === view && (known !== "node" || node !== "")) ?? home.view,
    group: groupings.find((known) => known === group) ?? home.group,
    states: words(params, "state"),
    list: params.get("as") === "list",
    selected: text(params, "selected"),
    urgencies: words(params, "urgency"),
    kinds: words(params, "kind"),
    types: words(params, "type"),
    finished: params.get("finished") === "yes",
    query: text(params, "q"),
    node,
  };
}

// format returns the query of an address. What is as in home is left out, and so is what the view does not use.
export function format(route: Route): string {
  const params = new URLSearchParams();
  const set = (name: string, value: string, plain: string) => {
    if (value !== plain) {
      params.set(name, value);
    }
  };
  set("view", route.view, home.view);
  switch (route.view) {
    case "fleet":
      set("group", route.group, home.group);
      set("state", route.states.join(","), "");
      set("as", route.list ? "list" : "", "");
      set("q", route.query, "");
      set("selected", route.selected, "");
      break;
    case "waits":
      set("urgency", route.urgencies.join(","), "");
      set("kind", route.kinds.join(","), "");
      set("q", route.query, "");
      break;
    case "progress":
      set("type", route.types.join(","), "");
      set("finished", route.finished ? "yes" : "", "");
      set("q", route.query, "");
      break;
    case "node":
      set("node", route.node, "");
      break;
  }
  const query = params.toString();
  return query === "" ? "./" : `./?${query}`;
}

// toggle returns a list with a word, or without it if it was there.
export function toggle(list: string[], word: string): string[] {
  return list.includes(word) ? list.filter((other) => other !== word) : [...list, word];
}

// tokenOf returns the token in the part of an address behind the #; empty for none.
export function tokenOf(hash: string): string {
  return new URLSearchParams(hash.replace(/^#/, "")).get("token") ?? "";
}
