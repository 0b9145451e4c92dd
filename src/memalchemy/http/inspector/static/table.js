// A list of like objects as a table.

import { h, visible } from "./dom.js";
import { number } from "./format.js";

const COLUMNS = 12;
const ROWS = 50;

/** The columns of a list of objects that have mostly the same scalars, or null. */
export function tableOf(value) {
  if (!Array.isArray(value) || value.length < 2) return null;
  const some = value.slice(0, ROWS);
  if (!some.every((one) => one !== null && typeof one === "object" && !Array.isArray(one))) return null;
  const names = [...new Set(some.flatMap((one) => Object.keys(one)))];
  if (!names.length || names.length > COLUMNS) return null;
  const cells = some.flatMap((one) => names.map((name) => (Object.hasOwn(one, name) ? one[name] : undefined)));
  const filled = cells.filter((cell) => cell !== undefined).length;
  const flat = cells.every((cell) => cell === null || typeof cell !== "object");
  return flat && filled * 2 >= cells.length ? names : null;
}

/** A list of like objects as a table; null for any other value. */
export function table(value) {
  const names = tableOf(value);
  if (names === null) return null;
  const isNumber = (name) => value.slice(0, ROWS).every((one) => one[name] === undefined || one[name] === null || typeof one[name] === "number");
  const cell = (one) => (one === undefined ? "" : one === null ? h("span.v-null", {}, "null") : visible(String(one).slice(0, 2000)));
  return h("div.md-table", { tabindex: 0, role: "group", "aria-label": "Table" },
    h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col", class: isNumber(name) ? "num" : "" }, visible(name.slice(0, 200)))))),
      h("tbody", {}, value.slice(0, ROWS).map((one) => h("tr", {}, names.map((name) => h("td", { class: isNumber(name) ? "num" : "" }, cell(Object.hasOwn(one, name) ? one[name] : undefined))))))),
    value.length > ROWS ? h("p.cut", {}, `The first ${number(ROWS)} of ${number(value.length)} rows.`) : null);
}
