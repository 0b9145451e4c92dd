// All threads: what each is about, filtered as one types, sorted by any column.

import { get } from "../api.js";
import { commandLine, commandMenu, csv, namespaceWord, saveFile } from "../commands.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { bytes, compact, money, number, plural, time, tokens } from "../format.js";
import { choices, empty, framework, hue, ownName, pagedList, searchField, tick } from "../parts.js";
import { href, replace } from "../router.js";

const PAGE = 50;
const COLUMNS = [
  ["title", "Thread", false],
  ["steps", "Steps", true],
  ["messages", "Messages", true],
  ["errors", "Errors", true],
  ["tokens", "Tokens", true],
  ["cost", "Cost", true],
  ["stored", "Stored", true],
  ["happened", "Happened", true],
];
const PERIODS = [["", "Any time"], ["1", "Last 24 hours"], ["7", "Last 7 days"], ["30", "Last 30 days"], ["365", "Last year"]];
const SAVED = ["thread_id", "namespace", "title", "agent", "user", "waiting", "asked", "checkpoints", "entries", "messages", "errors", "input_tokens", "output_tokens", "cost_usd", "stored_bytes", "happened_at", "updated_at"];

export function threads({ root, parameters, signal, title, listen }) {
  const chosen = {
    q: parameters.get("q") ?? "",
    framework: parameters.get("framework"),
    metadata: parameters.getAll("metadata"),
    days: parameters.get("days") ?? "",
    waiting: parameters.get("waiting") === "1",
    sort: parameters.get("sort") ?? "happened",
    up: parameters.get("up") === "1",
  };
  title("Threads");

  // A list, for "" is a name, too: that of memalchemy's own threads.
  const ofFramework = () => (chosen.framework === null ? [] : [chosen.framework]);
  const pairsOf = () => Object.fromEntries(chosen.metadata.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
  const isFiltered = () => chosen.q || chosen.framework !== null || chosen.metadata.length || chosen.days || chosen.waiting;
  const rises = (sort) => (sort === "title") !== chosen.up;

  const rows = new Map();
  let window = null;
  const foot = h("p.list-note.muted", { role: "status" });

  const list = pagedList({
    signal, label: "Threads", kind: "row", rows: 10,
    key: (row) => JSON.stringify([row.namespace, row.thread_id]),
    load: async (cursor) => {
      const pairs = pairsOf();
      const got = await get("threads", {
        about: chosen.q || null, framework: ofFramework(), metadata: chosen.metadata.length ? JSON.stringify(pairs) : null,
        since: chosen.days ? new Date(Date.now() - Number(chosen.days) * 86400000).toISOString() : null,
        waiting: chosen.waiting ? 1 : null, sort: chosen.sort, descending: rises(chosen.sort) ? 0 : 1, cursor, limit: PAGE,
      }, signal);
      if (cursor === null) {
        rows.clear();
        window = got.window;
      }
      got.threads.forEach((row) => rows.set(JSON.stringify([row.namespace, row.thread_id]), row));
      note(got);
      return { rows: got.threads, next: got.next };
    },
    draw: threadRow,
    nothing: () => (isFiltered()
      ? empty("search", "No thread matches", "A part of an id, of a title, of a name or of metadata finds a thread. ", h("button.link", { type: "button", on: { click: clear } }, "Show all threads"))
      : empty("threads", "No threads yet", "A thread appears here as soon as an agent saves its first step or message.")),
  });

  /** Say what was looked through, where that is not everything. */
  function note(got) {
    if (got.window === null || got.window === undefined) {
      put(foot);
      return;
    }
    const sorted = chosen.sort === "written" ? "in the order of the last writes" : `sorted among ${number(got.window)} threads at a time, those written last first`;
    put(foot, `${isFiltered() ? "Filtered and " : ""}${isFiltered() ? sorted : sorted[0].toUpperCase() + sorted.slice(1)}. ${got.next ? "There are more below." : "This was everything."}`);
  }

  const field = searchField({
    label: "Filter threads", value: chosen.q, placeholder: "Title, id, user, metadata…",
    onInput: (text) => {
      chosen.q = text;
      changed();
    },
  });
  const chips = h("div.chips");
  const filters = h("div.filters");
  const counts = h("p.counts.muted", { role: "status" });
  const head = h("div.table-head", { role: "group", "aria-label": "Sort by" });

  function drawHead() {
    put(head, COLUMNS.map(([name, text, isNumber]) => {
      const on = chosen.sort === name;
      const rising = rises(name);
      return h("button.sort", {
        type: "button", class: `${isNumber ? "num " : ""}col-${name}`, "aria-pressed": String(on), title: `Sort by ${text.toLowerCase()}`,
        on: {
          click: () => {
            chosen.up = on ? !chosen.up : false;
            chosen.sort = name;
            drawHead();
            changed();
          },
        },
      }, text, on ? icon(rising ? "up" : "down") : null, on ? h("span.unseen", {}, rising ? ", rising" : ", falling") : null);
    }));
  }

  function drawFilters() {
    const pair = h("input", { type: "text", "aria-label": "Metadata, as key=value", placeholder: "user_id=ada", spellcheck: "false", autocomplete: "off", maxlength: 300 });
    const add = h("form.pair-form", {}, h("span.muted", {}, "Metadata"), pair);
    add.addEventListener("submit", (event) => {
      event.preventDefault();
      const at = pair.value.indexOf("=");
      if (at < 1) {
        pair.setAttribute("aria-invalid", "true");
        return;
      }
      chosen.metadata = [...chosen.metadata.filter((one) => !one.startsWith(pair.value.slice(0, at + 1))), pair.value];
      drawFilters();
      changed();
      filters.querySelector("input[type=text]").focus();
    });
    const period = h("select.select", { "aria-label": "When something happened" }, PERIODS.map(([value, text]) => h("option", { value, selected: value === chosen.days }, text)));
    period.addEventListener("change", () => {
      chosen.days = period.value;
      changed();
    });
    put(filters,
      tick("waiting for a person", "Only threads that wait for an answer", chosen.waiting, (yes) => {
        chosen.waiting = yes;
        changed();
      }),
      period, add,
      chosen.metadata.map((one) => h("span.filter-chip", {}, h("a", { href: href("scope", { metadata: one }), title: "All that is known of it" }, visible(one)), h("button.ghost", {
        type: "button", "aria-label": `Remove ${one}`,
        on: {
          click: () => {
            chosen.metadata = chosen.metadata.filter((other) => other !== one);
            drawFilters();
            changed();
          },
        },
      }, icon("close")))));
  }

  function changed() {
    replace("threads", {
      q: chosen.q || null, framework: ofFramework(), metadata: chosen.metadata, days: chosen.days || null, waiting: chosen.waiting ? "1" : null,
      sort: chosen.sort === "happened" ? null : chosen.sort, up: chosen.up ? "1" : null,
    });
    list.start();
  }

  function clear() {
    Object.assign(chosen, { q: "", framework: null, metadata: [], days: "", waiting: false });
    field.querySelector("input").value = "";
    drawChips();
    drawFilters();
    changed();
  }

  let frameworks = [];
  function drawChips() {
    if (frameworks.length < 2) return;
    const options = [{ value: null, text: "All" }, ...frameworks.map((one) => ({
      value: one.name, text: ownName(one.name), count: compact(one.threads), dot: hue(one.name),
    }))];
    put(chips, choices("Framework", options, chosen.framework, (value) => {
      chosen.framework = value;
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

  const menu = commandMenu({
    commands: () => [
      ["The list", commandLine("threads", chosen.q ? ["--pattern", `*${chosen.q}*`] : [], chosen.framework ? ["--namespace", namespaceWord([chosen.framework]), "--prefix"] : [])],
      ["All threads as JSON Lines", commandLine("export", "--all", ["--output", "threads.jsonl"])],
    ],
    files: () => [
      ["The rows below as CSV", () => saveFile("threads.csv", csv([...rows.values()], SAVED), "text/csv")],
      ["as JSON", () => saveFile("threads.json", JSON.stringify([...rows.values()], null, 2))],
    ],
  });

  drawHead();
  drawFilters();
  put(root,
    h("div.view-head", {}, h("div.titles", {}, h("h1", {}, "Threads"), counts), field, menu),
    chips, filters,
    h("div.table.thread-table", {}, head, list.element), foot);
  list.start();
  overview();
  listen(() => {
    // What was found in windows of very many threads is not in the order of time.
    if (!window || !isFiltered()) list.renew();
    overview();
  });
}

/** A thread as a row that is a link. */
export function threadRow(row) {
  const total = (row.input_tokens ?? 0) + (row.output_tokens ?? 0);
  const some = (value, shown) => (value ? shown : h("span.zero", {}, "–"));
  const cell = (label, value, shown, name) => h(`span.cell.num.col-${name}`, { data: { label } }, some(value, shown));
  const steps = row.checkpoints + row.entries;
  return h("li", {}, h("a.row.thread-row", { href: href("thread", { thread: row.thread_id, ns: row.namespace }), data: { row: "" } },
    h("span.cell.name", {},
      h("span.row-title", {}, row.waiting ? h("span.badge.warn", { title: row.asked }, icon("interrupt"), "waits") : null,
        row.title ? h("span.row-text", {}, visible(row.title)) : code(row.thread_id, 72)),
      h("span.sub.row-sub", {}, framework(row.framework),
        h("span.row-id", {}, code(row.thread_id, 44)),
        row.namespace?.length > 1 ? h("span", {}, row.namespace.slice(1).map((part, n) => [n ? "/" : "", code(part, 24)])) : null,
        row.user ? h("span.row-who", {}, icon("user"), visible(row.user)) : null,
        row.agent ? h("span.row-who", {}, icon("assistant"), visible(row.agent)) : null,
        row.problem ? h("span.row-problem", {}, row.problem === "large" ? "too large for a list" : row.problem) : null)),
    cell(row.checkpoints ? (steps === 1 ? "step" : "steps") : (steps === 1 ? "entry" : "entries"), steps, number(steps), "steps"),
    cell(row.messages === 1 ? "message" : "messages", row.messages, number(row.messages), "messages"),
    cell(row.errors === 1 ? "error" : "errors", row.errors, h("span.bad-number", {}, `${number(row.errors)}${row.partial ? "+" : ""}`), "errors"),
    cell("tokens", total, h("span", { title: `${number(row.input_tokens)} in, ${number(row.output_tokens)} out` }, `${tokens(total)}${row.partial ? "+" : ""}`), "tokens"),
    cell("", row.cost_usd, money(row.cost_usd), "cost"),
    h("span.cell.num.col-stored", { title: `${bytes(row.stored_bytes)} stored, ${bytes(row.raw_bytes)} if each state was stored in full` }, some(row.stored_bytes, bytes(row.stored_bytes))),
    h("span.cell.num.when.col-happened", {}, time(row.happened_at ?? row.updated_at))));
}
