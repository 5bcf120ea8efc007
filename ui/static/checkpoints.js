// The history of checkpoints: duration, size, alignment and the parts of the subtasks; failures with their reasons.

import { brief, bytes, day, duration, el } from "./elements.js";

export function checkpointsView(panel) {
  const body = el("tbody", {});
  const parts = el("div", { "aria-live": "polite" });
  panel.append(
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Checkpoints" }, el("table", {},
      el("caption", {}, "Newest first. Alignment is the longest time from the command until a subtask's snapshot."),
      el("thead", {}, el("tr", {}, ...["Epoch", "Kind", "At (UTC)", "Duration", "Size", "Alignment", "Written in", "Subtasks", ""].map((text) =>
        el("th", { scope: "col" }, text || "Parts")))), body)), parts);
  function showParts(event, graph) {
    parts.replaceChildren(
      el("h2", {}, `Parts of checkpoint ${event.epoch}`),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parts" }, el("table", {},
        el("thead", {}, el("tr", {}, ...["Task", "Subtask", "Size", "Alignment", "Written in"].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, ...event.parts.map((part) => el("tr", {},
          el("th", { scope: "row", title: graph.tasks[part.task]?.label }, brief(graph.tasks[part.task]?.label ?? String(part.task))), el("td", { class: "n" }, String(part.subtask)),
          el("td", { class: "n" }, bytes(part.size)), el("td", { class: "n" }, duration(part.waited)), el("td", { class: "n" }, duration(part.wrote))))))));
  }

  // Rows stay, so that a click or the focus is not lost when the next checkpoint comes.
  const rows = new Map();

  function rowOf(event, graph) {
    if (event.kind === "checkpoint_failed") {
      return el("tr", {}, el("th", { scope: "row" }, String(event.epoch)), el("td", { class: "bad" }, "failed"),
        el("td", {}, day(event.at)), el("td", { colspan: 6 }, event.why));
    }
    const most = (name) => (event.parts.length ? Math.max(...event.parts.map((part) => part[name] ?? 0)) : null);
    return el("tr", {},
      el("th", { scope: "row" }, String(event.epoch)), el("td", {}, event.checkpoint + (event.is_whole ? "" : ", changes")),
      el("td", {}, day(event.at)), el("td", { class: "n" }, duration(event.duration)), el("td", { class: "n" }, bytes(event.size)),
      el("td", { class: "n" }, duration(most("waited"))), el("td", { class: "n" }, duration(most("wrote"))),
      el("td", { class: "n" }, String(event.parts.length)),
      el("td", {}, el("button", { type: "button", "aria-label": `Parts of checkpoint ${event.epoch}`, onclick: () => showParts(event, graph) }, "Parts")));
  }

  return ({ checkpoints, graph }) => {
    if (!checkpoints.checkpoints.length) {
      body.replaceChildren(el("tr", {}, el("td", { colspan: 9 }, "There are no checkpoints yet.")));
      return;
    }
    if (!rows.size) body.replaceChildren();
    for (const event of checkpoints.checkpoints) {
      const id = `${event.at}/${event.epoch}`;
      if (rows.has(id)) continue;
      rows.set(id, rowOf(event, graph));
      body.prepend(rows.get(id));
    }
  };
}
