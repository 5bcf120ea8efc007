// Event time against processing time, as in the figures of the Dataflow paper: inputs as circles, panes as boxes that
// end where they fire, the watermark as a line, retractions struck out.

import { clock, duration, el, svg } from "./elements.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [1000, 500, 112, 40, 16];

// So many inputs and panes are drawn at most, the last ones.
const MOST = 600;

export function eventTimeView(panel, shared) {
  const step = el("select", { onchange: () => { shared.chosenStep = step.value; shared.chosenKey = null; key.value = ""; hasKey = false; shared.show("event-time"); } });
  const keys = el("datalist", { id: "keys" });
  const key = el("input", { list: "keys", onchange: () => { shared.chosenKey = key.value; shared.show("event-time"); } });
  const span = el("select", { onchange: () => draw() },
    ...[["60", "the last minute"], ["300", "the last 5 minutes"], ["all", "all that is kept"]].map(([value, text]) => el("option", { value }, text)));
  const image = svg("svg", { class: "drawing", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const body = el("tbody", {});
  panel.append(
    el("div", { class: "bar" }, el("label", {}, "Step ", step), el("label", {}, "Key (empty: all) ", key), keys, el("label", {}, "Show ", span),
      el("span", { class: "legend" }, "Right: event time. Up: processing time. Circles: inputs. Boxes: panes, blue early, green on time, orange late. Dashed red line: watermark. Struck out: retracted.")),
    image, el("h2", {}, "Panes, newest first"),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Panes" }, el("table", {}, el("thead", {}, el("tr", {},
      ...["Fired at", "Key", "Window", "Value", "Timing", "Pane", "Sign"].map((text) => el("th", { scope: "col" }, text)))), body)));
  let found = null;
  let hasKey = false;

  function draw() {
    image.replaceChildren();
    const limit = span.value === "all" ? -Infinity : (found.now ?? 0) - Number(span.value) * 1e6;
    const inputs = found.inputs.filter((each) => each.at >= limit && each.timestamp > -9e15).slice(-MOST);
    // A window without a beginning, or one that ends with time, has no place on the axis.
    const panes = found.panes.filter((each) => each.at >= limit && each.start !== null && each.end < 9e15).slice(-MOST);
    const marks = found.watermarks.filter(([at, micros]) => at >= limit && micros > -9e15 && micros < 9e15);
    const times = [...inputs.map((each) => each.timestamp), ...panes.flatMap((each) => [each.start, each.end]), ...marks.map((each) => each[1])];
    const moments = [...inputs.map((each) => each.at), ...panes.map((each) => each.at), ...marks.map((each) => each[0])];
    const label = found.why || (!found.step ? "Choose a step." : !times.length ? "Nothing has arrived for this step and key yet." : "");
    image.setAttribute("aria-label", label || `${inputs.length} inputs and ${panes.length} panes of ${found.step}; the table below lists the panes`);
    if (label) {
      image.append(svg("text", { x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle" }, label));
      return;
    }
    const reach = (all) => { let [low, high] = [Infinity, -Infinity]; for (const n of all) { low = Math.min(low, n); high = Math.max(high, n); } return high > low ? [low, high] : [low - 1e6, high + 1e6]; };
    const [t0, t1] = reach(times);
    const [p0, p1] = reach(moments);
    const x = (micros) => LEFT + (micros - t0) / (t1 - t0) * (WIDTH - LEFT - 16);
    const y = (at) => HEIGHT - BOTTOM - (at - p0) / (p1 - p0) * (HEIGHT - BOTTOM - TOP);
    for (let i = 0; i <= 8; i += 1) {
      const [t, p] = [t0 + (t1 - t0) * i / 8, p0 + (p1 - p0) * i / 8];
      image.append(svg("line", { class: "grid", x1: x(t), x2: x(t), y1: TOP, y2: HEIGHT - BOTTOM }), svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 16, y1: y(p), y2: y(p) }));
      if (i % 2 === 0) image.append(svg("text", { x: x(t), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, clock(t, t1 - t0 < 2e7)), svg("text", { x: LEFT - 6, y: y(p) + 4, "text-anchor": "end" }, clock(p, p1 - p0 < 2e7)));
    }
    image.append(
      svg("line", { class: "axis", x1: LEFT, x2: WIDTH - 16, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }), svg("line", { class: "axis", x1: LEFT, x2: LEFT, y1: TOP, y2: HEIGHT - BOTTOM }),
      svg("text", { x: WIDTH / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "event time (UTC)"),
      svg("text", { x: 14, y: HEIGHT / 2, transform: `rotate(-90 14 ${HEIGHT / 2})`, "text-anchor": "middle" }, "processing time (UTC)"));
    // The ideal watermark: event time is processing time.
    const [from, to] = [Math.max(t0, p0), Math.min(t1, p1)];
    if (to > from) image.append(svg("line", { class: "ideal", x1: x(from), y1: y(from), x2: x(to), y2: y(to) }));
    drawPanes(panes, x, y, p0);
    image.append(...inputs.map((each) => svg("g", {}, svg("title", {}, `${each.key}: ${each.value}`),
      svg("circle", { cx: x(each.timestamp), cy: y(each.at), r: inputs.length > 200 ? 3 : 11 }),
      inputs.length > 200 ? null : svg("text", { x: x(each.timestamp), y: y(each.at) + 4, "text-anchor": "middle" }, each.value.slice(0, 4)))));
    const ordered = [...marks].sort((a, b) => a[0] - b[0]);
    if (ordered.length) image.append(svg("polyline", { class: "watermark", points: ordered.map(([at, micros]) => `${x(micros)},${y(at)}`).join(" ") }));
  }

  // A pane's box begins where the window's last pane ended.
  function drawPanes(panes, x, y, bottom) {
    const ends = new Map();
    const isCrowded = panes.length > 250;
    for (const pane of panes) {
      const window = `${pane.key}/${pane.start}/${pane.end}`;
      if (pane.sign < 0) {
        const [x1, x2, at] = [x(pane.start), x(pane.end), y(pane.at)];
        image.append(svg("g", {}, svg("title", {}, `retracted: ${pane.value}`), svg("line", { class: "retraction", x1, x2, y1: at, y2: at }),
          isCrowded ? null : svg("text", { class: "retracted", x: x2 - 4, y: at - 4, "text-anchor": "end" }, pane.value.slice(0, 14))));
        continue;
      }
      const since = ends.get(window) ?? bottom;
      ends.set(window, pane.at);
      const [left, top, width, height] = [x(pane.start), y(pane.at), x(pane.end) - x(pane.start), y(since) - y(pane.at)];
      image.append(svg("g", {}, svg("title", {}, `${pane.key}: ${pane.value}, ${pane.timing}, pane ${pane.number}`),
        svg("rect", { class: `pane ${pane.timing}`, x: left, y: top, width: Math.max(width, 1), height: Math.max(height, 1), "fill-opacity": 0.7 }),
        isCrowded ? null : svg("text", { x: left + 4, y: top + 14 }, pane.value.slice(0, Math.max(4, Math.floor(width / 8))))));
    }
  }

  return ({ panes }) => {
    found = panes;
    if (step.children.length !== panes.steps.length) step.replaceChildren(...panes.steps.map((label) => el("option", { value: label }, label)));
    if (!shared.chosenStep && panes.steps.length) {
      shared.chosenStep = panes.step ?? panes.steps[0];
      if (!panes.step) setTimeout(() => shared.show("event-time"));
    }
    if (shared.chosenStep) step.value = shared.chosenStep;
    if (shared.chosenKey === null && !hasKey && panes.keys.length && panes.step) {
      // The figures are of one key: the hottest, until the user chooses.
      hasKey = true;
      [shared.chosenKey] = panes.keys;
      key.value = shared.chosenKey;
      setTimeout(() => shared.show("event-time"));
    }
    if (keys.children.length !== panes.keys.length) keys.replaceChildren(...panes.keys.map((text) => el("option", { value: text })));
    draw();
    body.replaceChildren(...[...panes.panes].reverse().slice(0, 200).map((each) => el("tr", {},
      el("td", {}, clock(each.at, true)), el("th", { scope: "row" }, each.key),
      el("td", {}, each.start === null ? "global" : `${clock(each.start)} + ${duration(each.end - each.start)}`),
      el("td", {}, each.sign < 0 ? el("s", {}, each.value) : each.value), el("td", {}, each.timing.toLowerCase().replace("_", " ")),
      el("td", { class: "n" }, String(each.number)), el("td", { class: "n" }, each.sign < 0 ? "−1" : "+1"))));
  };
}
