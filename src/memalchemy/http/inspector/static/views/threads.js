// All threads, filtered as one types.

import { get } from "../api.js";
import { h, put, code } from "../dom.js";
import { bytes, compact, number, plural, ratio, time } from "../format.js";
import { choices, empty, framework, hue, ownName, pagedList, searchField } from "../parts.js";
import { href, replace } from "../router.js";

const PAGE = 50;

export function threads({ root, parameters, signal, title, listen }) {
  let q = parameters.get("q") ?? "";
  let only = parameters.get("framework");
  title("Threads");

  // A list, for "" is a name, too: that of memalchemy's own threads.
  const chosen = () => (only === null ? [] : [only]);

  let isScanned = false;
  const list = pagedList({
    signal, label: "Threads", kind: "row", rows: 10,
    key: (row) => JSON.stringify([row.namespace, row.thread_id]),
    load: async (cursor) => {
      const got = await get("threads", { q: q || null, framework: chosen(), cursor, limit: PAGE }, signal);
      isScanned = got.order === "id";
      return { rows: got.threads, next: got.next };
    },
    draw: threadRow,
    nothing: () => (q || only !== null
      ? empty("search", "No thread matches", "A thread's id, or a part of it, finds the thread. ", h("button.link", { type: "button", on: { click: clear } }, "Show all threads"))
      : empty("threads", "No threads yet", "A thread appears here as soon as an agent saves its first step or message.")),
  });

  const field = searchField({
    label: "Filter threads", value: q, placeholder: "Filter by id…",
    onInput: (text) => {
      q = text;
      changed();
    },
  });
  const chips = h("div.chips");
  const counts = h("p.counts.muted", { role: "status" });

  function changed() {
    replace("threads", { q: q || null, framework: chosen() });
    list.start();
  }

  function clear() {
    q = "";
    only = null;
    field.querySelector("input").value = "";
    drawChips();
    changed();
  }

  let frameworks = [];
  function drawChips() {
    if (frameworks.length < 2) return;
    const options = [{ value: null, text: "All" }, ...frameworks.map((one) => ({
      value: one.name, text: ownName(one.name), count: compact(one.threads), dot: hue(one.name),
    }))];
    put(chips, choices("Framework", options, only, (value) => {
      only = value;
      changed();
    }));
  }

  async function overview() {
    const got = await get("overview", {}, signal).catch(() => null);
    if (got === null || signal.aborted) return;
    const about = got.estimated ? "about " : "";
    put(counts, `${about}${plural(got.threads, "thread")}, ${plural(got.checkpoints, "step")}, ${plural(got.items, "item")}`);
    if (JSON.stringify(frameworks) !== JSON.stringify(got.frameworks)) {
      frameworks = got.frameworks;
      drawChips();
    }
  }

  put(root,
    h("div.view-head", {}, h("div.titles", {}, h("h1", {}, "Threads"), counts), field),
    chips,
    h("div.table.thread-table", {},
      h("div.table-head", { "aria-hidden": "true" }, h("span", {}, "Thread"), h("span", {}, "Framework"), h("span.num", {}, "Steps"), h("span.num", {}, "Entries"),
        h("span.num", {}, "Stored"), h("span.num", {}, "Written")),
      list.element));
  list.start();
  overview();
  listen(() => {
    // What a scan of very many ids has found is not in the order of time.
    if (!isScanned) list.renew();
    overview();
  });
}

/** A thread as a row that is a link. */
export function threadRow(row) {
  const saved = ratio(row.raw_bytes, row.stored_bytes);
  return h("li", {}, h("a.row.thread-row", { href: href("thread", { thread: row.thread_id, ns: row.namespace }), data: { row: "" } },
    h("span.cell.name", {}, code(row.thread_id, 72), row.namespace?.length > 1
      ? h("span.sub", {}, row.namespace.slice(1).map((part, n) => [n ? "/" : "", code(part, 24)])) : null),
    h("span.cell.fw", {}, framework(row.framework)),
    h("span.cell.num", { data: { label: row.checkpoints === 1 ? "step" : "steps" } }, row.checkpoints ? number(row.checkpoints) : h("span.zero", {}, "–")),
    h("span.cell.num", { data: { label: row.entries === 1 ? "entry" : "entries" } }, row.entries ? number(row.entries) : h("span.zero", {}, "–")),
    h("span.cell.num.size", { title: `${bytes(row.stored_bytes)} stored, ${bytes(row.raw_bytes)} if each state was stored in full` },
      row.stored_bytes ? bytes(row.stored_bytes) : h("span.zero", {}, "–"), saved ? h("span.saved", {}, saved) : null),
    h("span.cell.num.when", {}, time(row.updated_at))));
}
