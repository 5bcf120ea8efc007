// Profiles: sampled stacks of user code as a flame graph, and the functions by their own time.

import { el, percent, svg } from "./elements.js";

const ROW = 20;
const WIDTH = 1200;

export function profileView(panel, shared) {
  const seconds = el("input", { type: "number", min: 1, max: 60, value: 10, size: 4 });
  const answer = el("output", { role: "status" });
  const chosen = el("select", { onchange: draw });
  const flame = el("div", {});
  const body = el("tbody", {});
  panel.append(
    el("form", { class: "bar", onsubmit: start },
      el("label", {}, "Seconds ", seconds), el("button", {}, "Take a profile"), el("label", {}, "Profile ", chosen), answer),
    flame, el("h2", {}, "Functions by their own time"),
    el("table", {}, el("thead", {}, el("tr", {}, ...["Function", "Own", "With callees"].map((text) => el("th", { scope: "col" }, text)))), body));
  let profiles = [];
  let root = null;
  let waiting = null;
  let why = "";

  async function start(event) {
    event.preventDefault();
    answer.textContent = "";
    try {
      waiting = (await shared.post("api/profiles", { seconds: Number(seconds.value) })).number;
      answer.textContent = `Sampling for ${seconds.value} s …`;
    } catch (error) {
      answer.textContent = error.message;
    }
  }

  function treeOf(stacks) {
    const top = { name: "all", count: 0, depth: 0, children: new Map() };
    for (const [stack, count] of Object.entries(stacks)) {
      let node = top;
      node.count += count;
      stack.split("\n").forEach((name, index) => {
        if (!node.children.has(name)) node.children.set(name, { name, count: 0, depth: index + 1, children: new Map() });
        node = node.children.get(name);
        node.count += count;
      });
    }
    return top;
  }

  const deepest = (node) => Math.max(node.depth, ...[...node.children.values()].map(deepest));

  function rectangles(node, x, scale, base, into) {
    const width = node.count * scale;
    if (width < 1) return;
    const label = `${node.name}, ${percent(node.count / root.count)}`;
    const zoomTo = () => drawTree(node);
    into.append(svg("g", {
      class: node.depth === 1 ? "worker" : node.depth === 2 ? "step" : "", role: "button", tabindex: width > 30 ? 0 : -1, "aria-label": label, onclick: zoomTo,
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoomTo(); } },
    }, svg("title", {}, label), svg("rect", { x, y: (node.depth - base) * ROW, width, height: ROW - 1 }),
    svg("text", { x: x + 4, y: (node.depth - base) * ROW + 14 }, node.name.slice(0, Math.floor((width - 6) / 7.3)))));
    let at = x;
    for (const child of [...node.children.values()].sort((a, b) => b.count - a.count)) {
      rectangles(child, at, scale, base, into);
      at += child.count * scale;
    }
  }

  function drawTree(node) {
    const image = svg("svg", { class: "flame", viewBox: `0 0 ${WIDTH} ${(deepest(node) - node.depth + 1) * ROW}`, role: "group", "aria-label": "Flame graph; choose a frame to enlarge it" });
    rectangles(node, 0, WIDTH / node.count, node.depth, image);
    flame.replaceChildren(...[node === root ? null : el("button", { type: "button", onclick: () => drawTree(root) }, "Show all"), image].filter(Boolean));
  }

  function draw() {
    const profile = profiles.find((each) => String(each.number) === chosen.value) ?? profiles.at(-1);
    if (!profile) {
      flame.replaceChildren(el("p", { class: "note" }, why || "No profile yet. It samples the stacks of all workers, and needs the token. On Spark it shows the tasks that end in these seconds, or the next ones that do."));
      return;
    }
    root = treeOf(profile.stacks);
    drawTree(root);
    const own = new Map();
    for (const [stack, count] of Object.entries(profile.stacks)) {
      const frames = stack.split("\n").slice(1);
      new Set(frames).forEach((name) => own.set(name, [own.get(name)?.[0] ?? 0, (own.get(name)?.[1] ?? 0) + count]));
      const last = frames.at(-1);
      if (last !== undefined) own.get(last)[0] += count;
    }
    const sorted = [...own].sort((a, b) => b[1][0] - a[1][0]).slice(0, 40);
    body.replaceChildren(...sorted.map(([name, [self, all]]) => el("tr", {}, el("th", { scope: "row" }, name),
      el("td", { class: "n" }, percent(self / root.count)), el("td", { class: "n" }, percent(all / root.count)))));
  }

  let shownProfiles = null;
  return ({ profiles: found }) => {
    if (found === shownProfiles) return;
    shownProfiles = found;
    profiles = found.profiles;
    why = found.why;
    chosen.replaceChildren(...profiles.map((each) => el("option", { value: each.number }, `number ${each.number}`)));
    if (profiles.length) chosen.value = String(profiles.at(-1).number);
    if (profiles.some((each) => each.number === waiting)) answer.textContent = "";
    draw();
  };
}
