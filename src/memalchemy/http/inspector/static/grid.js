// The answer of a query as a table that is sorted by a click.

import { h, put, visible } from "./dom.js";
import { icon } from "./icons.js";

const SHOWN = 2000;
const NUMBERS = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

/**
 * Columns of `{name, kind}` and rows of values as a table.
 *
 * `link(column, value)` returns an address or null. `rows()` returns the rows as they are sorted.
 */
export function grid({ columns, rows, label, link = () => null }) {
  const order = { column: null, falls: false };
  let sorted = rows;
  const head = h("tr");
  const body = h("tbody");
  const isNumber = (column) => column.kind === "number";

  function drawHead() {
    put(head, columns.map((column, at) => {
      const on = order.column === at;
      return h("th", { scope: "col", class: isNumber(column) ? "num" : "", "aria-sort": on ? (order.falls ? "descending" : "ascending") : "none" },
        h("button.sort", { type: "button", title: `Sort by ${column.name.slice(0, 60)}`, on: { click: () => sortBy(at) } },
          visible(column.name.slice(0, 200)), on ? icon(order.falls ? "down" : "up") : null));
    }));
  }

  /** A first click begins with the largest number, or with the first word; a third gives the order of the answer back. */
  function sortBy(at) {
    const first = isNumber(columns[at]);
    if (order.column !== at) Object.assign(order, { column: at, falls: first });
    else if (order.falls === first) order.falls = !first;
    else Object.assign(order, { column: null, falls: false });
    const sign = order.falls ? -1 : 1;
    // An order of equals that stays, and nothing at the end, whichever way.
    sorted = order.column === null ? rows : [...rows].sort((a, b) => {
      const [one, two] = [a[at], b[at]];
      if (one === null || two === null) return (one === null) - (two === null);
      return sign * compared(one, two);
    });
    drawHead();
    head.querySelectorAll("button")[at].focus();
    drawBody();
  }

  const drawBody = () => put(body, sorted.map((row) => h("tr", { tabindex: -1, data: { row: "" } }, columns.map((column, at) => cell(column, row[at])))));

  function cell(column, value) {
    if (value === null) return h("td", { class: isNumber(column) ? "num" : "" }, h("span.v-null", {}, "null"));
    const text = shownAs(column, value);
    const to = link(column, value);
    return h("td", { class: isNumber(column) ? "num" : column.kind, title: text.length > 160 ? text.slice(0, 1000) : null },
      h("div.grid-cell", {}, to ? h("a", { href: to }, visible(text)) : visible(text)));
  }

  drawHead();
  drawBody();
  return {
    rows: () => sorted,
    element: h("div.grid", { tabindex: 0, role: "region", "aria-label": label }, h("table", {}, h("thead", {}, head), body)),
  };
}

function compared(one, two) {
  if (typeof one === "number" && typeof two === "number") return one - two;
  return String(one).localeCompare(String(two), "en", { numeric: true });
}

function shownAs(column, value) {
  if (typeof value === "number") return NUMBERS.format(value);
  const text = String(value);
  return column.kind === "time" ? text.replace(/(:\d\d)\.\d+/, "$1") : text.slice(0, SHOWN);
}
