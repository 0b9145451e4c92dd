// A box for SQL over the tables of what agents did.

import { get } from "../api.js";
import { commandLine, commandMenu, csvOf, saveFile } from "../commands.js";
import { h, put, visible } from "../dom.js";
import { grid } from "../grid.js";
import { icon } from "../icons.js";
import { duration, number, plural } from "../format.js";
import { announce, choices, copyButton, during, empty, skeleton } from "../parts.js";
import { href, replace } from "../router.js";

const SPANS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["", "All"]];
const LINES = [5, 18];

export function sql({ root, parameters, signal, title }) {
  let days = SPANS.some(([value]) => value === parameters.get("days")) ? parameters.get("days") : "";
  let shown = null;
  let asked = new AbortController();
  signal.addEventListener("abort", () => asked.abort());
  title("SQL");

  const box = h("textarea.sql-text", {
    "aria-label": "Query", spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "soft",
    placeholder: "select thread, role, text from messages", maxlength: 20000, data: { field: "" },
  });
  box.value = parameters.get("q") ?? "";
  const run = h("button.button.primary", { type: "submit" }, "Run", h("kbd", { "aria-hidden": "true" }, "Ctrl ↵"));
  const status = h("span.sql-status.muted", { role: "status" });
  const answer = h("div.sql-answer");
  const side = h("aside.sql-side", { "aria-label": "Questions and tables" });
  const form = h("form.card.sql-form", {}, box, h("div.sql-bar", {}, run,
    h("div.sql-days", {}, h("span.muted", {}, "What happened in"), choices("Days", SPANS.map(([value, text]) => ({ value, text })), days, (value) => {
      days = value;
      if (shown) ask();
    }))));

  const line = (...options) => commandLine("sql", days ? ["--since", `${days}d`] : [], ...options, "--", oneLine(box.value.trim()) || "select thread, role, time from messages");
  const menu = commandMenu({
    commands: () => [["The query", line()], ["All of its rows as CSV", line("--csv")]],
    files: () => (shown ? [
      ["The rows below as CSV", () => saveFile("answer.csv", asCSV(), "text/csv")],
      ["as JSON", () => saveFile("answer.json", JSON.stringify(shown.table.rows().map((row) => Object.fromEntries(shown.names.map((name, at) => [name, row[at]]))), null, 2))],
    ] : []),
  });
  const asCSV = () => csvOf(shown.names, shown.table.rows());

  put(root, h("div.view-head", {}, h("div.titles", {}, h("h1", {}, "SQL"), h("p.counts.muted", {}, "What agents did, as tables that queries read")), menu),
    h("div.sql-grid", {}, h("div.stack", {}, form, answer), side));

  function fit() {
    const lines = box.value.split("\n").length;
    box.rows = Math.min(Math.max(lines + 1, LINES[0]), LINES[1]);
  }
  box.addEventListener("input", fit);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      ask();
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });

  async function ask() {
    const query = box.value.trim();
    replace("sql", { q: query || null, days: days || null });
    if (!query) {
      box.focus();
      return;
    }
    asked.abort();
    asked = new AbortController();
    const mine = asked;
    const since = days ? new Date(Date.now() - Number(days) * 86400000).toISOString() : null;
    const start = performance.now();
    put(answer, skeleton(4));
    answer.setAttribute("aria-busy", "true");
    shown = null;
    try {
      const got = await get("sql", { q: query, since }, mine.signal);
      if (!mine.signal.aborted) draw(got, performance.now() - start);
    } catch (error) {
      if (mine.signal.aborted || error.name === "AbortError") return;
      put(answer, refusal(error));
    } finally {
      if (mine === asked) answer.removeAttribute("aria-busy");
    }
  }

  function draw(got, took) {
    const names = unique(got.columns.map((column) => column.name));
    const table = grid({
      columns: got.columns, rows: got.rows, label: "Answer",
      link: (column, value) => (column.name === "thread" ? href("threads", { q: value }) : null),
    });
    shown = { names, table };
    const said = `${got.more ? "the first " : ""}${plural(got.rows.length, "row")}`;
    put(status, said, h("span.sql-took", {}, ` in ${duration(took)}`));
    announce(said);
    put(answer, h("div.card.sql-result", {},
      h("div.card-head", {}, status, h("span.spacer"), copyButton(asCSV, "Copy as CSV"), copyButton(() => line(), "Copy as command", "terminal")),
      got.rows.length ? table.element : empty("search", "No rows", "The query was run, and nothing answers to it.")),
    notes(got));
  }

  const notes = (got) => [
    got.more ? h("p.list-note.muted", {}, "There are more rows: the command shows all of them.") : null,
    got.cut ? h("p.list-note.muted", {}, "Long texts are cut.") : null,
    got.unreadable.length ? h("p.list-note.muted", {}, `${plural(got.unreadable.length, "thing")} could not be read: `, visible(got.unreadable.slice(0, 3).join("; ").slice(0, 600))) : null,
  ];

  const put_ = (text) => {
    box.value = text;
    fit();
    ask();
  };

  during(side, signal, async () => {
    const got = await get("tables", {}, signal);
    if (got.missing) {
      form.hidden = true;
      menu.hidden = true;
      put(answer, empty("sql", "SQL needs the extra “analysis”", visible(got.missing)));
      return [];
    }
    if (box.value.trim()) ask();
    else put(answer, h("div.card", {}, empty("sql", "Ask in SQL", `Choose a question, or write your own. An answer has ${number(got.rows)} rows and takes ${number(got.seconds)} seconds, at most.`)));
    return [
      h("section", { "aria-labelledby": "questions-title" }, h("h2", { id: "questions-title" }, "Ten questions"),
        h("ul.questions", {}, got.questions.map((one) => h("li", {}, h("button.question", { type: "button", data: { row: "" }, title: one.sql, on: { click: () => put_(one.sql) } }, one.text))))),
      h("section", { "aria-labelledby": "tables-title" }, h("h2", { id: "tables-title" }, "Tables"),
        got.tables.map((table) => h("details.sql-table", {}, h("summary", {}, icon("chevron"), h("code", {}, table.name)),
          h("p.muted.small", {}, `One row is ${table.row}.`),
          h("dl.columns", {}, table.columns.map((column) => h("div", {}, h("dt", {}, h("code", {}, column.name), h("span.type", {}, column.kind)), h("dd", {}, column.meaning.replaceAll("`", "")))))))),
    ];
  }, { rows: 8 });
  fit();
  if (!box.value) setTimeout(() => box.focus({ preventScroll: true }), 0);
}

/** Why a query was refused, in the words of the command line. */
function refusal(error) {
  return h("div.card.sql-refusal", { role: "alert" },
    h("div.card-head", {}, icon("warning"), h("h2", {}, error.code === "MA-STATEMENT-FAILED" ? "The query was stopped" : "The query was not run")),
    h("pre.text-block", { tabindex: 0 }, visible(error.detail || error.title)));
}

/** Return a query on one line, if that does not change it: a comment ends with its line. */
function oneLine(query) {
  let changes = false;
  const made = query.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--|\s*\n\s*/g, (found) => {
    if (found.trim() === "") return " ";
    changes ||= found === "--" || found.includes("\n");
    return found;
  });
  return changes ? query : made;
}

/** Columns of one name are told apart by numbers, as the command line does it. */
function unique(names) {
  const found = [];
  for (const name of names) {
    let made = name;
    for (let n = 2; found.includes(made); n += 1) made = `${name}_${n}`;
    found.push(made);
  }
  return found;
}
