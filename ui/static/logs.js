// The tail of the logs of the job and its workers.

import { clock, el } from "./elements.js";

export function logsView(panel) {
  const level = el("select", { onchange: draw }, ...["all", "WARNING", "ERROR"].map((text) => el("option", { value: text }, text)));
  const lines = el("div", { class: "lines", tabindex: 0, role: "log", "aria-label": "Log lines", "aria-live": "off" });
  panel.append(el("div", { class: "bar" }, el("label", {}, "Level ", level)), lines);
  let found = [];

  function draw() {
    const wanted = { all: () => true, WARNING: (each) => each !== "DEBUG" && each !== "INFO", ERROR: (each) => each === "ERROR" || each === "CRITICAL" }[level.value];
    const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    lines.replaceChildren(...found.filter((line) => wanted(line[2])).map(([process, at, each, text]) =>
      el("div", { class: each === "ERROR" || each === "CRITICAL" ? "bad" : each === "WARNING" ? "late" : "" }, `${clock(at, true)} ${process} ${each} ${text}`)));
    if (!found.length) lines.replaceChildren(el("p", { class: "note" }, "No lines yet. Lines that loggers pass on to the root logger are shown."));
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  }

  return ({ logs }) => {
    found = [...logs.lines].sort((a, b) => a[1] - b[1]);
    draw();
  };
}
