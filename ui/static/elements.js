// Elements of the page, and numbers and times as texts.

const SVG = "http://www.w3.org/2000/svg";

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Texts are always text nodes, so that no element of a pipeline becomes markup.
export const el = (tag, attributes, ...children) => made(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => made(document.createElementNS(SVG, tag), attributes, children);

// The label of a stage or task has those of all its steps.
export const brief = (label) => (label.length > 90 ? `${label.slice(0, 60)} … ${label.slice(-25)}` : label);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function number(n) {
  if (n === null || n === undefined) return "–";
  const size = Math.abs(n);
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return `${(n / (unit === "k" ? 1e3 : limit)).toFixed(1)}${unit}`;
  }
  return Number.isInteger(n) ? String(n) : n.toFixed(size < 10 ? 1 : 0);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  let [size, unit] = [n, "B"];
  for (const larger of ["kB", "MB", "GB", "TB"]) {
    if (size < 1000) break;
    [size, unit] = [size / 1000, larger];
  }
  return `${unit === "B" ? Math.round(size) : size.toFixed(1)} ${unit}`;
}

export function duration(micros) {
  if (micros === null || micros === undefined) return "–";
  const seconds = micros / 1e6;
  for (const [limit, size, unit] of [[86400, 86400, "d"], [3600, 3600, "h"], [600, 60, "min"]]) {
    if (Math.abs(seconds) >= limit) return `${(seconds / size).toFixed(1)} ${unit}`;
  }
  if (Math.abs(seconds) >= 10) return `${seconds.toFixed(0)} s`;
  return Math.abs(seconds) >= 0.1 ? `${seconds.toFixed(1)} s` : `${(micros / 1000).toFixed(1)} ms`;
}

export const percent = (share) => `${Math.round(100 * share)}%`;

export function clock(micros, hasMillis = false) {
  const text = new Date(micros / 1000).toISOString();
  return text.slice(11, hasMillis ? 23 : 19);
}

export const day = (micros) => new Date(micros / 1000).toISOString().replace("T", " ").slice(0, 19);

export function meter(busy, pressed, text) {
  return svg("svg", { class: "meter", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": text },
    svg("rect", { class: "b", width: 100 * busy, height: 10 }),
    svg("rect", { class: "p", width: 100 * pressed, height: 3 }));
}
