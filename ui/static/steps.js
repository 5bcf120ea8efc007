// The table of steps: rates, watermarks, lag, state, hot keys and skew; sortable, and filtered by name; and of a run in batch its partitions and workers.

import { bytes, duration, el, number, percent, setText } from "./elements.js";

const COLUMNS = [
  ["step", "Step", false], ["kind", "Kind", false], ["read", "Read", true], ["rate", "Read/s", true], ["written", "Written", true],
  ["out", "Written/s", true], ["time", "Time", true], ["busy", "Busy", true], ["lag", "Watermark lag", true],
  ["overdue", "Processing-time lag", true], ["backlog", "Backlog", true], ["kept", "Windows and cells", true], ["state", "State", true], ["late", "Dropped late", true],
  ["skew", "Skew", true], ["keys", "Hottest keys", false],
];

// Fields of the status that some runs don't measure.
const FIELDS = {
  traffic: "Rates of edges", hot_keys: "hottest keys", kept: "windows and cells", overdue: "processing-time lag",
  watermarks: "watermark lag", state_size: "state", backlogs: "backlog",
};

// Elements and bytes; a source doesn't know bytes.
function waiting(backlog, isKnown) {
  if (!backlog) return isKnown ? "0" : "–";
  return !backlog[1] ? number(backlog[0]) : `${number(backlog[0])}, ${bytes(backlog[1])}`;
}

export function stepsView(panel, shared) {
  const filter = el("input", { type: "search", oninput: () => update(shared.documents) });
  const unmeasured = el("p", { class: "note", role: "note" });
  const body = el("tbody", {});
  const heads = {};
  let order = ["", 1];
  const head = el("tr", {}, ...COLUMNS.map(([name, title, isNumber]) => {
    heads[name] = el("th", { scope: "col", class: isNumber ? "n" : "" },
      el("button", { type: "button", onclick: () => sort(name) }, title));
    return heads[name];
  }));
  const metrics = el("tbody", {});
  // Of a run in batch: partitions by task, and what each worker does.
  const partitions = el("tbody", {});
  const workers = el("tbody", {});
  const tables = (title, columns, rows) => [
    el("h2", {}, title),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, el("table", {},
      el("thead", {}, el("tr", {}, ...columns.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), rows)),
  ];
  const tasks = el("div", { hidden: true },
    ...tables("Partitions", [["Task"], ["Done", "n"], ["Running", "n"], ["Waiting", "n"]], partitions),
    ...tables("Workers", [["Worker"], ["Process"], ["Task"], ["Tasks done", "n"]], workers));
  panel.append(
    el("div", { class: "bar" }, el("label", {}, "Filter by name ", filter),
      el("span", { class: "note" }, "A fused stage counts elements once, at its first step. Skew: the busiest subtask against the average. Backlog: what waits for the stage, or for a source to read it. State: bytes of the stage in the newest checkpoint.")),
    unmeasured,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Steps" }, el("table", {}, el("thead", {}, head), body)),
    tasks,
    ...tables("Metrics of user code", [["Step"], ["Namespace"], ["Name"], ["Kind"], ["Value", "n"]], metrics));
  const rows = new Map();

  function sort(name) {
    order = order[0] === name ? [name, -order[1]] : [name, COLUMNS.find((each) => each[0] === name)[2] ? -1 : 1];
    for (const [each, node] of Object.entries(heads)) {
      if (each === name) node.setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending");
      else node.removeAttribute("aria-sort");
    }
    update(shared.documents);
  }

  const both = (value) => [value, number(value)];

  function valuesOf(each, graph, status) {
    // Counts and watermarks are of stages, and named by the labels of their steps.
    const isFirst = each.stage === each.label || each.stage.startsWith(`${each.label} + `);
    const own = (name) => (isFirst ? status[name]?.[each.stage] : undefined);
    const passing = (edges, index) => {
      // Groupings are counted where a page taps their inputs and outputs.
      const found = edges.map((edge) => status[index]?.[edge.pcollection]).filter(Boolean);
      return each.kind === "GroupByKeyAndWindow" && found.length ? found.reduce((sum, pair) => sum + pair[0], 0) : undefined;
    };
    const at = graph.transforms.indexOf(each);
    const inputs = graph.edges.filter((edge) => edge.target === at && !edge.is_side_input);
    const outputs = graph.edges.filter((edge) => edge.source === at && !edge.is_side_input).slice(0, 1);
    const watermark = status.watermarks?.[each.stage];
    const loads = (status.subtasks?.[each.task] ?? []).map((load) => load[0]);
    const mean = loads.reduce((a, b) => a + b, 0) / (loads.length || 1);
    const late = (status.metrics ?? []).filter((metric) => metric.step === each.label && metric.name === "dropped_late");
    const hot = status.hot_keys?.[each.label];
    const backlog = own("backlogs");
    const overdue = status.overdue?.[graph.tasks[each.task]?.label];
    const keepsState = each.kind === "GroupByKeyAndWindow" || status.kept?.[each.label] !== undefined;
    const size = keepsState ? status.state_size?.[each.task] : undefined;
    const measured = (name, shown) => (status.unmeasured?.[name] === undefined ? shown : "not measured");
    return {
      step: [each.label, each.label], kind: [each.kind, each.kind.replace("AndWindow", "")],
      read: both(own("read") ?? passing(inputs, "traffic")), rate: both(own("read_rates") ?? passing(inputs, "traffic_rates")),
      written: both(own("written") ?? passing(outputs, "traffic")), out: both(own("written_rates") ?? passing(outputs, "traffic_rates")),
      time: [status.seconds?.[each.label], status.seconds?.[each.label] === undefined ? "–" : `${number(status.seconds[each.label])} s`],
      busy: [status.seconds_rates?.[each.label], percent((status.seconds_rates?.[each.label] ?? 0) / (graph.parallelism || 1))],
      lag: [typeof watermark === "number" ? status.now - watermark : undefined,
        measured("watermarks", typeof watermark === "number" ? duration(status.now - watermark) : watermark ?? "–")],
      overdue: [overdue, measured("overdue", overdue === undefined ? "–" : duration(overdue))],
      backlog: [backlog?.[0], measured("backlogs", waiting(backlog, isFirst && status.backlogs !== undefined))],
      kept: [status.kept?.[each.label], measured("kept", number(status.kept?.[each.label]))],
      state: [size, measured("state_size", size === undefined ? "–" : bytes(size))],
      late: [late[0]?.value, number(late[0]?.value)],
      skew: [mean ? Math.max(...loads) / mean : undefined, loads.length > 1 && mean ? `${(Math.max(...loads) / mean).toFixed(1)}×` : "–"],
      keys: ["", measured("hot_keys", hot && hot.total ? hot.keys.slice(0, 3).map(([key, count]) => `${key} ${percent(count / hot.total)}`).join(", ") : "")],
    };
  }

  function update({ graph, status }) {
    if (!graph || !status) return;
    const missing = Object.entries(status.unmeasured ?? {});
    setText(unmeasured, missing.length ? `${missing.map(([name]) => FIELDS[name]).join(", ")}: ${[...new Set(missing.map(([, why]) => why))].join("; ")}.` : "");
    const wanted = filter.value.toLowerCase();
    const found = graph.transforms.filter((each) => each.label.toLowerCase().includes(wanted))
      .map((each) => [each.label, valuesOf(each, graph, status)]);
    if (order[0]) {
      const key = ([, values]) => values[order[0]][0] ?? (order[1] > 0 ? Infinity : -Infinity);
      found.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * order[1]);
    }
    for (const [label, values] of found) {
      let row = rows.get(label);
      if (!row) {
        row = el("tr", {}, ...COLUMNS.map(([name, , isNumber], index) => el(index ? "td" : "th", { class: isNumber ? "n" : "", scope: index ? null : "row" })));
        rows.set(label, row);
      }
      COLUMNS.forEach(([name], index) => setText(row.children[index], values[name][1]));
      row.classList.toggle("chosen", label === status.bottleneck?.step);
    }
    const shown = found.map(([label]) => rows.get(label));
    if (shown.length !== body.children.length || shown.some((row, index) => body.children[index] !== row)) body.replaceChildren(...shown);
    tasks.hidden = status.partitions === undefined;
    const cells = (texts) => texts.map((text, index) => el(index ? "td" : "th", { class: typeof text === "number" ? "n" : "", scope: index ? null : "row" }, typeof text === "number" ? number(text) : text));
    partitions.replaceChildren(...(status.partitions ?? []).map((counts, task) => el("tr", {}, ...cells([graph.tasks[task]?.label ?? "", ...counts]))));
    workers.replaceChildren(...(status.tasks ?? []).map((each) => el("tr", {},
      ...cells([`worker ${each.worker}`, String(each.pid), graph.tasks[each.task]?.label ?? "idle", each.done]))));
    metrics.replaceChildren(...(status.metrics ?? []).slice(0, 500).map((each) => el("tr", {},
      el("th", { scope: "row" }, each.step), el("td", {}, each.namespace), el("td", {}, each.name), el("td", {}, each.kind),
      el("td", { class: "n" }, each.kind === "distribution"
        ? `n ${number(each.value[1])}, mean ${number(each.value[0] / each.value[1])}, ${number(each.value[2])} to ${number(each.value[3])}`
        : each.kind === "counter" ? number(each.value) : each.value))));
  }
  return update;
}
