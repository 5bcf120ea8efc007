// The page: tabs, the state of the run, requests, and the stream of events that says what has changed.

import { duration, el, number, setText } from "./elements.js";
import { checkpointsView } from "./checkpoints.js";
import { errorsView } from "./errors.js";
import { eventTimeView } from "./event_time.js";
import { graphView } from "./graph.js";
import { logsView } from "./logs.js";
import { profileView } from "./profile.js";
import { stepsView } from "./steps.js";

const TOKEN = "penstock-token";
const byId = (id) => document.getElementById(id);

async function get(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  const content = await response.json();
  if (!response.ok) throw new Error(content.error ?? response.statusText);
  return content;
}

async function post(path, content) {
  const headers = { Authorization: `Bearer ${byId("token").value.trim()}`, "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(content ?? {}) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.text ?? answer.error ?? response.statusText);
  return answer;
}

// What views share: documents by name, fetched when they change, and the chosen step.
const shared = { get, post, documents: {}, chosen: null, chosenKey: null, show, choose };

const views = [
  ["graph", "Graph", graphView, ["graph", "status"]],
  ["steps", "Steps", stepsView, ["graph", "status"]],
  ["event-time", "Event time", eventTimeView, ["panes"]],
  ["checkpoints", "Checkpoints", checkpointsView, ["checkpoints", "graph"]],
  ["errors", "Errors", errorsView, ["errors"]],
  ["logs", "Logs", logsView, ["logs"]],
  ["profile", "Profile", profileView, ["profiles"]],
].map(([id, title, make, needs]) => ({ id, title, make, needs }));

let current = null;
let versions = {};
const fetched = {};

function makeViews() {
  for (const view of views) {
    view.tab = el("button", {
      id: `tab-${view.id}`, role: "tab", type: "button", "aria-controls": `view-${view.id}`,
      onclick: () => show(view.id), onkeydown: moveTab,
    }, view.title);
    view.panel = el("section", {
      id: `view-${view.id}`, role: "tabpanel", tabindex: 0, "aria-labelledby": `tab-${view.id}`, hidden: true,
    });
    byId("tabs").append(view.tab);
    byId("views").append(view.panel);
    view.update = view.make(view.panel, shared);
  }
}

function moveTab(event) {
  const at = views.indexOf(current);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const view = views[(to + views.length) % views.length];
  show(view.id);
  view.tab.focus();
}

function show(id) {
  current = views.find((view) => view.id === id) ?? views[0];
  for (const view of views) {
    view.panel.hidden = view !== current;
    view.tab.setAttribute("aria-selected", String(view === current));
    view.tab.tabIndex = view === current ? 0 : -1;
  }
  if (location.hash !== `#${current.id}`) history.replaceState(null, "", `#${current.id}`);
  refresh();
}

function choose(step) {
  shared.chosen = step;
  current.update(shared.documents);
}

// Fetch what the open view needs and has changed, one round at a time.
let isRefreshing = false;
let isStale = false;

async function refresh() {
  if (isRefreshing) {
    isStale = true;
    return;
  }
  isRefreshing = true;
  try {
    const view = current;
    const needed = [...new Set(["run", "status", ...view.needs])];
    await Promise.all(needed.map(load));
    showRun(shared.documents.run, shared.documents.status);
    if (view === current) await view.update(shared.documents);
    document.body.dataset.shown = current.id;
  } catch (error) {
    setText(byId("state"), `not reachable (${error.message})`);
  } finally {
    isRefreshing = false;
  }
  if (isStale) {
    isStale = false;
    refresh();
  }
}

async function load(name) {
  const version = name === "run" ? JSON.stringify(versions) : versions[name === "panes" ? "panes" : name] ?? 0;
  const also = name === "panes" ? `${version}/${versions.status}/${shared.chosenStep}/${shared.chosenKey}` : version;
  if (fetched[name] === also && shared.documents[name]) return;
  let path = `api/${name}`;
  if (name === "panes" && shared.chosenStep) {
    path += `?step=${encodeURIComponent(shared.chosenStep)}&key=${encodeURIComponent(shared.chosenKey ?? "")}`;
  }
  shared.documents[name] = await get(path);
  fetched[name] = also;
}

function showRun(run, status) {
  setText(byId("state"), run.state.toLowerCase());
  byId("state").className = run.state === "FAILED" ? "bad" : run.state === "RUNNING" ? "good" : "";
  setText(byId("uptime"), run.now && run.started ? duration(run.now - run.started) : "–");
  setText(byId("parallelism"), number(run.parallelism));
  setText(byId("epoch"), run.epoch === null ? "none yet" : String(run.epoch));
  setText(byId("restarts"), number(run.restarts));
  setText(byId("backlog"), run.backlog === null ? "unknown" : number(run.backlog));
  document.title = `${run.state.toLowerCase()} – penstock`;
  for (const button of byId("buttons").children) {
    button.disabled = run.state !== "RUNNING" || !run.requests.includes(button.dataset.kind);
  }
  const found = status.bottleneck;
  const text = found ? `${found.cause === "none" ? "No bottleneck" : found.cause}: ${found.text}` : "The load is not known yet.";
  if (byId("bottleneck").dataset.text !== text) {
    byId("bottleneck").dataset.text = text;
    const title = found && found.cause !== "none" ? el("strong", {}, `Bottleneck: ${found.cause}. `) : null;
    byId("bottleneck").replaceChildren(...[title, found ? found.text : text].filter(Boolean));
  }
}

function makeButtons() {
  const texts = {
    savepoint: "Savepoint", stop: "Stop with savepoint", drain: "Drain", cancel: "Cancel", restart: "Restart",
  };
  for (const [kind, text] of Object.entries(texts)) {
    byId("buttons").append(el("button", { type: "button", "data-kind": kind, onclick: () => request(kind, text) }, text), " ");
  }
  byId("control").addEventListener("submit", (event) => event.preventDefault());
  byId("token").value = sessionStorage.getItem(TOKEN) ?? "";
  byId("token").addEventListener("change", () => sessionStorage.setItem(TOKEN, byId("token").value.trim()));
}

async function request(kind, text) {
  if (kind !== "savepoint" && !confirm(`${text} this run?`)) return;
  setText(byId("answer"), "…");
  try {
    setText(byId("answer"), (await post(`api/requests/${kind}`)).text);
  } catch (error) {
    setText(byId("answer"), error.message);
  }
}

function listen() {
  const stream = new EventSource("api/events");
  stream.addEventListener("versions", (event) => {
    versions = JSON.parse(event.data).versions;
    refresh();
  });
  stream.addEventListener("over", () => {
    stream.close();
    setText(byId("state"), `${shared.documents.run?.state.toLowerCase() ?? ""} (the job has ended; penstock ui DIR shows it)`);
  });
}

makeViews();
makeButtons();
show(location.hash.slice(1));
listen();
