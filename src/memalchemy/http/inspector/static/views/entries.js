// A log's entries, newest last, as trees.

import { get } from "../api.js";
import { h, put, code } from "../dom.js";
import { number, time } from "../format.js";
import { during, empty, failure } from "../parts.js";
import { tree } from "../tree.js";

const PAGE = 100;

export function entries({ root, signal, where }) {
  const place = h("div");
  put(root, place);
  const ask = (before = null) => get("entries", { ...where, before, limit: PAGE }, signal);
  const row = (entry) => h("li.card.entry", { data: { row: "" }, tabindex: -1 },
    h("div.card-head", {}, h("span.index", {}, `#${number(entry.position)}`), entry.key !== null && entry.key !== undefined ? code(entry.key, 60) : null, h("span.spacer"), time(entry.occurred_at ?? entry.stored_at)),
    tree(entry.value, { load: (path, offset) => get("entry", { ...where, position: entry.position, path, offset }, signal).then((got) => got.node), label: `Entry ${entry.position}`, open: 1 }));

  const draw = async () => {
    const got = await ask();
    if (!got.entries.length) return empty("threads", "No entries", "This thread has neither steps nor entries yet.");
    const list = h("ol.entries", { "aria-label": "Entries" }, inOrder(got.entries).map(row));
    const line = h("div.earlier");
    const fill = (page) => {
      if (page.previous === null || page.previous === undefined) {
        put(line);
        return;
      }
      const button = h("button.button", { type: "button" }, "Show earlier entries");
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          const before = await ask(page.previous);
          list.prepend(...inOrder(before.entries).map(row));
          fill(before);
        } catch (error) {
          if (error.name !== "AbortError") put(line, failure(error, () => fill(page)));
        }
      });
      put(line, button);
    };
    fill(got);
    return [line, list];
  };
  during(place, signal, draw, { rows: 8 });
  return { renew: () => during(place, signal, draw, { quiet: true }) };
}

const inOrder = (rows) => [...rows].sort((a, b) => a.position - b.position);
