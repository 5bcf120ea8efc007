// The last errors with element, transform and user frames; and the timeline of starts, failures, restarts and ends.

import { day, el, number } from "./elements.js";

export function errorsView(panel) {
  const errors = el("div", {});
  const timeline = el("ol", {});
  const aside = el("tbody", {});
  panel.append(el("h2", {}, "Errors, newest first"), errors, el("h2", {}, "Timeline"), timeline,
    el("h2", {}, "Dropped and set aside"),
    el("table", {}, el("thead", {}, el("tr", {}, ...["Step", "What", "Elements"].map((text) => el("th", { scope: "col" }, text)))), aside));

  return ({ errors: found }) => {
    errors.replaceChildren(...(found.errors.length ? [...found.errors].reverse().map((each) => el("article", {},
      el("p", {}, el("strong", { class: "bad" }, each.type), ` at ${day(each.at)}${each.is_final ? ", which ended the run" : ""}`),
      el("dl", {},
        el("dt", { class: "note" }, "Transform"), el("dd", {}, each.transform || "–"),
        el("dt", { class: "note" }, "Element"), el("dd", {}, each.element ?? "–"),
        el("dt", { class: "note" }, "User code"), el("dd", {}, each.location ?? "–")),
      el("pre", {}, each.message), each.frames ? el("pre", {}, each.frames) : null)) : [el("p", { class: "note" }, "There are none.")]));
    timeline.replaceChildren(...[...found.timeline].reverse().map((each) => el("li", {}, `${day(each.at)}  ${each.text}`)));
    aside.replaceChildren(...(found.set_aside.length ? found.set_aside.map((each) => el("tr", {},
      el("th", { scope: "row" }, each.step), el("td", {}, each.name), el("td", { class: "n" }, number(each.value))))
      : [el("tr", {}, el("td", { colspan: 3 }, "Nothing."))]));
  };
}
