// Where the bytes are.

import { get } from "../api.js";
import { commandLine, commandMenu, saveFile } from "../commands.js";
import { h, s, put, visible, code } from "../dom.js";
import { bytes, plural, ratio, time } from "../format.js";
import { during, empty, framework, hue, ownName } from "../parts.js";
import { href } from "../router.js";

export function storage({ root, signal, title }) {
  title("Storage");
  const place = h("div");
  let shown = null;
  put(root, h("div.view-head", {}, h("div.titles", {}, h("h1", {}, "Storage")), commandMenu({
    commands: () => [["The sizes", commandLine("stats", "--tables")], ["What can be given back", commandLine("vacuum", "--dry-run")]],
    files: () => [["The numbers as JSON", () => saveFile("storage.json", JSON.stringify(shown, null, 2))]],
  })), place);
  const draw = (quiet) => during(place, signal, async () => {
    const got = await get("space", {}, signal);
    shown = got;
    if (!got.file_bytes && !got.stored_bytes) return empty("storage", "Nothing is stored yet", "Sizes appear here with the first step, entry or item.");
    if (got.measuring && !got.kinds.length) setTimeout(() => !signal.aborted && draw(true), 3000);
    return [
      h("div.tiles", {},
        tile("Database", bytes(got.total_bytes), "everything: tables, indexes, words, all tenants"),
        tile("In full", bytes(got.raw_bytes), `${got.estimated ? "about what" : "what"} each state, entry and write would take if it was stored whole`),
        tile("Times smaller", ratio(got.raw_bytes, got.total_bytes) || "–", ratio(got.raw_bytes, got.total_bytes) ? "in full, against the whole database" : "the whole database takes more than its states in full"),
        tile("Free", bytes(got.free_bytes), "within the database's files, to be used again")),
      !got.kinds.length ? h("p.muted", { role: "status" }, "The rest is being measured. It appears here by itself.") : h("section.card", { "aria-labelledby": "kinds-title" }, h("div.card-head", {}, h("h2", { id: "kinds-title" }, "By kind"), h("span.spacer"), h("span.muted", {}, bytes(sum(got.kinds)))), stacked(got.kinds)),
      h("div.halves", {},
        h("section.card", { "aria-labelledby": "fw-title" }, h("div.card-head", {}, h("h2", { id: "fw-title" }, "By framework"), h("span.spacer"),
          h("span.legend", {}, h("i.swatch.raw"), "whole states", h("i.swatch.stored"), "stored")), frameworks(got.frameworks)),
        h("section.card", { "aria-labelledby": "tables-title" }, h("div.card-head", {}, h("h2", { id: "tables-title" }, "By table")), bars(got.tables, "Bytes by table"))),
      h("section", { "aria-labelledby": "largest-title" }, h("h2.section-title", { id: "largest-title" }, "Largest threads"),
        got.largest.length ? h("div.table.stored-table", {}, h("ul.list", { "aria-labelledby": "largest-title" }, got.largest.map(storedRow))) : h("p.muted", {}, "No threads yet.")),
    ];
  }, { rows: 8, quiet });
  draw(false);
}

/** A thread by what it takes. */
function storedRow(row) {
  return h("li", {}, h("a.row.stored-row", { href: href("thread", { thread: row.thread_id, ns: row.namespace }), data: { row: "" } },
    h("span.cell.name", {}, code(row.thread_id, 72)), h("span.cell.fw", {}, framework(row.framework)),
    h("span.cell.num", {}, row.checkpoints ? plural(row.checkpoints, "step") : plural(row.entries, "entry", "entries")),
    h("span.cell.num.size", {}, h("b", {}, bytes(row.stored_bytes)), row.raw_bytes > row.stored_bytes ? h("span.sub", {}, `${bytes(row.raw_bytes)} in full`) : null),
    h("span.cell.num.when", {}, time(row.updated_at))));
}

const sum = (rows) => rows.reduce((total, row) => total + row.bytes, 0);
const tile = (term, value, note) => h("div.tile", {}, h("span.tile-term", {}, term), h("span.tile-value", {}, value), h("span.tile-note", {}, note));
const part = (value, most) => `${most ? Math.max(0.4, (value / most) * 100) : 0}%`;

/** One bar of parts, with a legend that has the numbers. */
function stacked(rows) {
  const total = sum(rows);
  const shown = rows.filter((row) => row.bytes > 0).sort((a, b) => Boolean(a.rest) - Boolean(b.rest) || b.bytes - a.bytes);
  const colour = (row, n) => (row.rest ? "rest" : n % 7);
  let at = 0;
  const label = shown.map((row) => `${row.name} ${bytes(row.bytes)}`).join(", ");
  return h("div.chart", {},
    s("svg.stacked", { role: "img", "aria-label": `Bytes by kind: ${label}`, width: "100%", height: 28 }, shown.map((row, n) => {
      const from = at;
      at += (row.bytes / total) * 100;
      return s(`rect.bar.hue-fill-${colour(row, n)}`, { x: `${from}%`, y: 0, width: `${Math.max(0.3, at - from)}%`, height: 28 }, s("title", {}, `${row.name}: ${bytes(row.bytes)}`));
    })),
    h("ul.chart-legend", {}, shown.map((row, n) => h("li", {}, h(`i.swatch.hue-${colour(row, n)}`), h("span", {}, visible(row.name)), h("b", {}, bytes(row.bytes)),
      h("span.muted", {}, `${((row.bytes / total) * 100).toFixed(row.bytes / total < 0.1 ? 1 : 0)}%`)))));
}

function frameworks(rows) {
  const most = Math.max(1, ...rows.map((row) => Math.max(row.raw_bytes, row.stored_bytes)));
  return h("ul.bars", {}, [...rows].sort((a, b) => b.raw_bytes - a.raw_bytes).map((row) => h("li.bar-row", {},
    h("span.bar-name", {}, framework(row.name)),
    h("span.bar-numbers", {}, h("b", {}, bytes(row.stored_bytes)), h("span.muted", {}, ` of ${bytes(row.raw_bytes)}, ${plural(row.threads, "thread")}`)),
    s("svg.bar-svg", { role: "img", width: "100%", height: 14, "aria-label": `${ownName(row.name)}: ${bytes(row.stored_bytes)} stored of ${bytes(row.raw_bytes)}` },
      s("rect.bar.track", { x: 0, y: 0, width: part(row.raw_bytes, most), height: 14, rx: 3 }),
      s(`rect.bar.hue-fill-${hue(row.name)}`, { x: 0, y: 0, width: part(row.stored_bytes, most), height: 14, rx: 3 })))));
}

function bars(rows, label) {
  const sorted = [...rows].sort((a, b) => b.bytes - a.bytes).slice(0, 14);
  const most = Math.max(1, ...sorted.map((row) => row.bytes));
  return h("ul.bars", { "aria-label": label }, sorted.map((row) => h("li.bar-row", {},
    h("span.bar-name.mono", {}, visible(row.name)), h("span.bar-numbers", {}, h("b", {}, bytes(row.bytes))),
    s("svg.bar-svg", { role: "img", width: "100%", height: 8, "aria-label": `${row.name}: ${bytes(row.bytes)}` }, s("rect.bar.accent", { x: 0, y: 0, width: part(row.bytes, most), height: 8, rx: 3 })))));
}
