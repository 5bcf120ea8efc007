// The graph: zoomable, coloured by busy share, with rates on its edges and a map for large graphs.

import { brief, bytes, duration, el, meter, number, percent, setText, svg } from "./elements.js";

const STEP = 60;
// From this scale on texts are drawn.
const LEGIBLE = 0.45;
// The ratio of its sides from which the map of a graph is stretched.
const LONG = 6;

export function graphView(panel, shared) {
  const names = el("datalist", { id: "step-names" });
  const search = el("input", { type: "search", list: "step-names", onchange: () => find(search.value), size: 30 });
  const layer = svg("g", {});
  const drawing = svg("svg", {
    class: "pipeline", tabindex: 0, role: "group", onwheel: zoomByWheel, onpointerdown: drag, onkeydown: move,
    "aria-label": "The graph of the pipeline. Plus and minus zoom, arrow keys with shift move, arrow keys go from step to step.",
  }, svg("defs", {}, svg("marker", {
    id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse",
  }, svg("path", { d: "M0,0 L8,4 L0,8 z", fill: "var(--soft)" }))), layer);
  const map = svg("svg", { class: "map", role: "img", "aria-label": "A map of the whole graph", onpointerdown: jump });
  const seen = svg("rect", { class: "seen" });
  const details = el("aside", { "aria-label": "The chosen step", "aria-live": "polite" });
  panel.append(
    el("div", { class: "bar" },
      el("label", {}, "Find a step ", search), names,
      el("button", { type: "button", onclick: () => zoom(1.25) }, "Zoom in"),
      el("button", { type: "button", onclick: () => zoom(0.8) }, "Zoom out"),
      el("button", { type: "button", onclick: fit }, "Fit"),
      el("span", { class: "legend" },
        "Filled: share of time in the step. Violet frame: backpressured. Red frame: bottleneck. Blue arrow: shuffle. Thick arrow: columns. ≈: estimated from samples.")),
    el("div", { class: "graph" }, drawing, el("div", {}, map, details)));

  let graph = null;
  let status = {};
  let width = 0;
  // A window of another width begins anew, unless the user has moved the graph: then its centre stays.  A hidden view
  // has none.
  new ResizeObserver(() => {
    const now = drawing.getBoundingClientRect().width;
    if (now && width && now !== width) {
      if (isMoved) shift((now - width) / 2, 0);
      else fit(true);
    }
    width = now || width;
  }).observe(drawing);
  let nodes = [];
  let edges = [];
  let view = { x: 0, y: 0, scale: 1 };
  let isMoved = false;
  let focused = 0;

  function build() {
    layer.replaceChildren();
    map.replaceChildren();
    map.setAttribute("viewBox", `0 0 ${graph.width || 10} ${graph.height || 10}`);
    // A long chain would be a line of one pixel.
    const isLong = graph.height > LONG * graph.width || graph.width > LONG * graph.height;
    map.setAttribute("preserveAspectRatio", isLong ? "none" : "xMidYMid");
    map.classList.toggle("long", isLong);
    names.replaceChildren(...graph.transforms.map((each) => el("option", { value: each.label })));
    layer.append(...graph.groups.map((group) => svg("g", { class: "group" },
      svg("title", {}, group.path),
      svg("rect", { x: group.x, y: group.y, width: group.width, height: group.height, rx: 6 }),
      svg("text", { x: group.x + 14, y: group.y + 17 }, group.text))));
    edges = graph.edges.map((edge) => {
      const [from, to] = [graph.transforms[edge.source], graph.transforms[edge.target]];
      const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + from.height, to.x + to.width / 2, to.y];
      const bend = Math.max(24, Math.abs(y2 - y1) / 2);
      // Rates have a line below the other texts, so that edges beside each other have room.
      const at = { x: (x1 + x2) / 2 + 6 };
      const [text, rate, size] = [svg("tspan", at), svg("tspan", at), svg("tspan", at)];
      const lines = svg("text", { y: (y1 + y2) / 2 + 4 }, text, rate, size);
      const kind = ["edge", edge.is_columnar && "columns", edge.is_side_input && "side", edge.crosses === "shuffle" && "shuffle"];
      layer.append(svg("g", { class: kind.filter(Boolean).join(" ") },
        svg("path", { d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2 - 2}`, "marker-end": "url(#head)" }), lines));
      return { edge, lines: [text, rate, size] };
    });
    nodes = graph.transforms.map((each, index) => {
      const busy = svg("rect", { class: "busy", x: each.x, y: each.y, width: 0, height: each.height, rx: 6 });
      const share = svg("text", { class: "share", x: each.x + each.width + 4, y: each.y + 11 });
      const node = svg("g", {
        class: "node", role: "button", tabindex: index === 0 ? 0 : -1, "aria-label": each.label,
        onclick: () => shared.choose(each.label), onfocus: () => { focused = index; },
      },
      svg("title", {}, [each.label, each.kind, ...each.settings].join("\n")),
      svg("rect", { class: "box", x: each.x, y: each.y, width: each.width, height: each.height, rx: 6 }), busy,
      svg("rect", { class: "box", x: each.x, y: each.y, width: each.width, height: each.height, rx: 6, "fill-opacity": 0 }),
      svg("text", { x: each.x + each.width / 2, y: each.y + each.height / 2 + 4, "text-anchor": "middle" }, each.text), share);
      layer.append(node);
      const dot = svg("rect", { x: each.x, y: each.y, width: each.width, height: each.height });
      map.append(dot);
      return { each, node, busy, share, dot };
    });
    map.append(seen);
    if (isMoved) apply();
    else fit(true);
  }

  // Positions

  function apply() {
    layer.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    layer.classList.toggle("far", view.scale < LEGIBLE);
    const box = drawing.getBoundingClientRect();
    seen.setAttribute("x", -view.x / view.scale);
    seen.setAttribute("y", -view.y / view.scale);
    seen.setAttribute("width", box.width / view.scale);
    seen.setAttribute("height", box.height / view.scale);
  }

  // A large graph begins at a size at which it can be read; the map shows the rest.
  function fit(isFirst) {
    const box = drawing.getBoundingClientRect();
    if (!graph || !box.width) return;
    const whole = Math.min(box.width / graph.width, box.height / graph.height, 1.4);
    const scale = isFirst === true ? Math.max(whole, 0.8) : whole;
    isMoved = false;
    view = { scale, x: Math.max(8, (box.width - graph.width * scale) / 2), y: 8 };
    if (isFirst === true && graph.width * scale > box.width && graph.transforms.length) {
      view.x = box.width / 2 - (graph.transforms[0].x + graph.transforms[0].width / 2) * scale;
    }
    apply();
  }

  function zoom(factor, x, y) {
    const box = drawing.getBoundingClientRect();
    const [cx, cy] = [x ?? box.width / 2, y ?? box.height / 2];
    const scale = Math.min(4, Math.max(0.02, view.scale * factor));
    view = { scale, x: cx - (cx - view.x) * scale / view.scale, y: cy - (cy - view.y) * scale / view.scale };
    isMoved = true;
    apply();
  }

  function zoomByWheel(event) {
    event.preventDefault();
    const box = drawing.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX - box.left, event.clientY - box.top);
  }

  function drag(event) {
    const [x, y] = [event.clientX - view.x, event.clientY - view.y];
    const moved = (each) => { view = { ...view, x: each.clientX - x, y: each.clientY - y }; isMoved = true; apply(); };
    window.addEventListener("pointermove", moved);
    window.addEventListener("pointerup", () => window.removeEventListener("pointermove", moved), { once: true });
  }

  function jump(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
    centre(point.x, point.y);
  }

  function centre(x, y) {
    const box = drawing.getBoundingClientRect();
    view = { ...view, x: box.width / 2 - x * view.scale, y: box.height / 2 - y * view.scale };
    isMoved = true;
    apply();
  }

  function move(event) {
    const far = event.shiftKey;
    const keys = {
      "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit(),
      ArrowDown: () => far ? shift(0, -STEP) : focus(1), ArrowUp: () => far ? shift(0, STEP) : focus(-1),
      ArrowRight: () => far ? shift(-STEP, 0) : focus(1), ArrowLeft: () => far ? shift(STEP, 0) : focus(-1),
      Enter: () => nodes.length && shared.choose(nodes[focused].each.label),
      " ": () => nodes.length && shared.choose(nodes[focused].each.label),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  function shift(x, y) {
    view = { ...view, x: view.x + x, y: view.y + y };
    isMoved = true;
    apply();
  }

  function focus(by) {
    if (!nodes.length) return;
    nodes[focused].node.setAttribute("tabindex", -1);
    focused = (focused + by + nodes.length) % nodes.length;
    const { each, node } = nodes[focused];
    node.setAttribute("tabindex", 0);
    node.focus({ preventScroll: true });
    centre(each.x + each.width / 2, each.y + each.height / 2);
  }

  function find(label) {
    const found = nodes.findIndex(({ each }) => each.label === label)
      ?? nodes.findIndex(({ each }) => each.label.includes(label));
    const index = found >= 0 ? found : nodes.findIndex(({ each }) => each.label.toLowerCase().includes(label.toLowerCase()));
    if (index < 0) return;
    if (view.scale < 0.8) zoom(1 / view.scale);
    focused = index;
    const { each } = nodes[index];
    centre(each.x + each.width / 2, each.y + each.height / 2);
    shared.choose(each.label);
  }

  // Values

  function refresh() {
    const slots = graph.parallelism || 1;
    const slowest = status.bottleneck?.step;
    for (const { each, node, busy, share, dot } of nodes) {
      const part = Math.min(1, (status.seconds_rates?.[each.label] ?? 0) / slots);
      const loads = status.subtasks?.[each.task] ?? [];
      const pressed = loads.length ? Math.max(...loads.map((load) => load[1])) : 0;
      busy.setAttribute("width", each.width * part);
      setText(share, part >= 0.005 ? percent(part) : "");
      node.classList.toggle("pressed", pressed >= 0.5);
      node.classList.toggle("slowest", each.label === slowest);
      node.classList.toggle("chosen", each.label === shared.chosen);
      dot.classList.toggle("hot", part > 0.3);
      node.setAttribute("aria-label", `${each.label}, ${each.kind}, ${percent(part)} of the time${pressed >= 0.5 ? ", backpressured" : ""}`);
    }
    for (const { edge, lines } of edges) {
      // The blocks of a shuffle are counted.
      const counted = status.shuffle_rates?.[graph.transforms[edge.target].label];
      const rates = counted ?? status.traffic_rates?.[edge.pcollection];
      const about = (name) => (!counted && status.estimated?.[edge.pcollection]?.includes(name) ? "≈" : "");
      const parts = [
        edge.is_fused && !rates ? "fused" : "", edge.is_columnar ? "columns" : "", edge.conversion, edge.tag,
      ].filter(Boolean).join(" · ");
      const texts = [
        parts, rates ? `${about("elements")}${number(rates[0])}/s` : "", rates ? `${about("bytes")}${bytes(rates[1])}/s` : "",
      ];
      const first = texts.findIndex(Boolean);
      const count = texts.filter(Boolean).length;
      lines.forEach((line, index) => {
        setText(line, texts[index]);
        line.setAttribute("dy", index === first ? -6 * (count - 1) : texts[index] ? 13 : 0);
      });
    }
    showDetails();
  }

  function showDetails() {
    const each = graph.transforms.find((one) => one.label === shared.chosen);
    if (!each) {
      details.replaceChildren(el("p", { class: "note" }, "Choose a step to see its load, watermark and keys."));
      return;
    }
    const watermark = status.watermarks?.[each.stage];
    const facts = [
      ["Kind", each.kind], ["Stage", each.stage],
      ["Time", `${percent((status.seconds_rates?.[each.label] ?? 0) / (graph.parallelism || 1))} lately, ${number(status.seconds?.[each.label] ?? 0)} s in all`],
      ["Watermark lag", typeof watermark === "number" ? duration(status.now - watermark) : watermark ?? "–"],
    ];
    if (each.windowing) facts.push(["Windows", each.windowing.windows], ["Trigger", each.windowing.trigger], ["Panes", each.windowing.accumulation.toLowerCase()]);
    const loads = status.subtasks?.[each.task] ?? [];
    details.replaceChildren(...[
      el("h2", {}, each.label),
      el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", { class: "note" }, name), el("dd", { title: value }, brief(value))])),
      el("h2", {}, "Subtasks"),
      el("ul", { class: "loads" }, ...loads.map(([busy, pressed, read], index) => {
        const text = `subtask ${index}: busy ${percent(busy)}, backpressured ${percent(pressed)}, idle ${percent(Math.max(0, 1 - busy - pressed))}, ${number(read)} elements`;
        return el("li", { title: text }, `${index} `, meter(busy, pressed, text), ` ${percent(busy)}`);
      })),
      each.windowing ? el("button", { type: "button", onclick: () => { shared.chosenStep = each.label; shared.show("event-time"); } }, "Draw its panes") : "",
    ]);
  }

  return (documents) => {
    status = documents.status;
    if (graph !== documents.graph) {
      graph = documents.graph;
      build();
    }
    refresh();
  };
}
