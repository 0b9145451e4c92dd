// What agents used: tokens, cost and calls of tools by day, model, tool and agent.

import { get } from "../api.js";
import { commandLine, commandMenu, csv, saveFile } from "../commands.js";
import { h, s, put, visible } from "../dom.js";
import { compact, money, number, plural, tokens } from "../format.js";
import { choices, during, empty } from "../parts.js";
import { href, replace } from "../router.js";

const DAY = new Intl.DateTimeFormat("en-GB", { month: "short", day: "numeric", timeZone: "UTC" });
const MEASURES = [["cost", "Cost"], ["tokens", "Tokens"], ["answers", "Answers"]];
const SPANS = [["30", "30 days"], ["90", "90 days"], ["all", "All"]];
const COLOURS = 7;

export function use({ root, parameters, signal, title }) {
  let measure = parameters.get("by");
  let span = parameters.get("days") ?? "30";
  title("Usage");
  const place = h("div.use");
  const sums = { models: [], tools: [], agents: [], looked: 0, unread: 0, next: null };

  async function read(cursor) {
    const got = await get("use", { cursor }, signal);
    for (const name of ["models", "tools", "agents"]) sums[name].push(...got[name]);
    sums.looked += got.looked;
    sums.unread += got.unread.reduce((sum, one) => sum + one.threads, 0);
    sums.next = got.next;
    measure ??= sums.models.some((row) => row.cost_usd) ? "cost" : sums.models.length ? "tokens" : "answers";
  }

  const menu = commandMenu({
    commands: () => {
      const since = span === "all" ? [] : ["--since", `${span}d`];
      return [["Answers by day and model", commandLine("usage", since, "--by", "day", "--by", "model")], ["Calls by tool", commandLine("tools", since, "--by", "tool")]];
    },
    files: () => [
      ["Models by day as CSV", () => saveFile("models.csv", csv(sums.models, ["day", "model", "answers", "input_tokens", "output_tokens", "cached_tokens", "cost_usd"]), "text/csv")],
      ["Tools by day as CSV", () => saveFile("tools.csv", csv(sums.tools, ["day", "tool", "calls", "errors"]), "text/csv")],
    ],
  });

  put(root, h("div.view-head", {}, h("div.titles", {}, h("h1", {}, "Usage"), h("p.counts.muted", {}, "What answers of models and calls of tools took, as messages and metadata say")), menu), place);

  const address = () => replace("use", { by: measure, days: span === "30" ? null : span });

  function draw() {
    const since = span === "all" ? "" : new Date(Date.now() - Number(span) * 86400000).toISOString().slice(0, 10);
    const models = sums.models.filter((row) => row.day > since);
    const tools = sums.tools.filter((row) => row.day > since);
    if (!sums.models.length && !sums.tools.length) {
      return [empty("use", "No usage is known", "Frameworks state tokens with their answers; metadata may hold model, input_tokens, output_tokens, cost_usd and latency_ms."), more()];
    }
    const total = models.reduce((sum, row) => ({ answers: sum.answers + row.answers, given: sum.given + row.input_tokens, made: sum.made + row.output_tokens, cached: sum.cached + row.cached_tokens, cost: sum.cost + (row.cost_usd ?? 0) }), { answers: 0, given: 0, made: 0, cached: 0, cost: 0 });
    const calls = tools.reduce((sum, row) => sum + row.calls, 0);
    const errors = tools.reduce((sum, row) => sum + row.errors, 0);
    return [
      h("div.tiles", {},
        tile("Cost", total.cost ? money(total.cost) : "–", total.cost ? "as stated, in US dollars" : "nobody stated any"),
        tile("Tokens", tokens(total.given + total.made), `${tokens(total.given)} in${total.cached ? ` (${tokens(total.cached)} cached)` : ""}, ${tokens(total.made)} out`),
        tile("Answers", compact(total.answers), `of ${plural(new Set(models.map((row) => row.model)).size, "model")}`),
        tile("Calls of tools", compact(calls), errors ? `${plural(errors, "error")} in results` : "no errors in results")),
      h("div.use-choices", {},
        choices("Measure", MEASURES.map(([value, text]) => ({ value, text })), measure, (value) => {
          measure = value;
          address();
          show();
        }),
        choices("Days", SPANS.map(([value, text]) => ({ value, text })), span, (value) => {
          span = value;
          address();
          show();
        })),
      h("section.card", { "aria-labelledby": "days-title" }, h("div.card-head", {}, h("h2", { id: "days-title" }, `${MEASURES.find(([name]) => name === measure)[1]} by day and model`)), days(models, measure)),
      h("div.halves", {},
        h("section.card", { "aria-labelledby": "tools-title" }, h("div.card-head", {}, h("h2", { id: "tools-title" }, "Tools"), h("span.spacer"), h("span.legend", {}, h("i.swatch.stored"), "calls", h("i.swatch.failed"), "errors")), toolBars(tools)),
        h("section.card", { "aria-labelledby": "agents-title" }, h("div.card-head", {}, h("h2", { id: "agents-title" }, "Agents")), agentRows(sums.agents))),
      more(),
    ];
  }

  function more() {
    const note = `${plural(sums.looked, "thread")} ${sums.looked === 1 ? "was" : "were"} looked at${sums.next ? ", those written last" : ": all of them"}${sums.unread ? `; ${number(sums.unread)} could not be read or are too large for this` : ""}. Messages without a time count on the last day of their thread.`;
    const button = sums.next ? h("button.button", { type: "button" }, "Look at 500 more") : null;
    button?.addEventListener("click", async () => {
      button.disabled = true;
      await during(place, signal, async () => {
        await read(sums.next);
        return draw();
      }, { quiet: true });
    });
    return h("p.list-note.muted", {}, note, " ", button);
  }

  const show = () => put(place, draw());
  during(place, signal, async () => {
    await read(null);
    return draw();
  }, { rows: 8 });
}

const tile = (term, value, note) => h("div.tile", {}, h("span.tile-term", {}, term), h("span.tile-value", {}, value), h("span.tile-note", {}, note));

const valueOf = (row, measure) => ({ cost: row.cost_usd ?? 0, tokens: row.input_tokens + row.output_tokens, answers: row.answers })[measure];
const shownAs = (value, measure) => (measure === "cost" ? money(value) : measure === "tokens" ? tokens(value) : number(value));

/** A column for each day, of a part for each model. */
function days(rows, measure) {
  const byModel = new Map();
  for (const row of rows) byModel.set(row.model, (byModel.get(row.model) ?? 0) + valueOf(row, measure));
  const models = [...byModel].filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
  if (!models.length) return h("p.muted.pad", {}, measure === "cost" ? "Nobody stated what these answers cost." : "Nothing in these days.");
  const kept = models.slice(0, COLOURS - 1).map(([name]) => name);
  const slot = (model) => (kept.includes(model) ? kept.indexOf(model) : COLOURS - 1);
  const names = rows.map((row) => row.day).sort();
  const all = [];
  for (let at = Date.parse(names[0]); at <= Date.parse(names.at(-1)) && all.length < 400; at += 86400000) all.push(new Date(at).toISOString().slice(0, 10));
  const sums = new Map(all.map((day) => [day, new Array(COLOURS).fill(0)]));
  for (const row of rows) if (sums.has(row.day)) sums.get(row.day)[slot(row.model)] += valueOf(row, measure);
  const totals = all.map((day) => sums.get(day).reduce((a, b) => a + b, 0));
  const top = nice(Math.max(...totals));
  const [width, height, left, bottom, above] = [960, 226, 56, 30, 10];
  const step = (width - left) / all.length;
  const wide = Math.max(1, Math.min(34, step * 0.72));
  const y = (value) => above + (height - above - bottom) * (1 - value / top);
  const every = Math.ceil(all.length / 10);
  const label = `${measure} by day: ${all.map((day, n) => (totals[n] ? `${DAY.format(new Date(day))} ${shownAs(totals[n], measure)}` : null)).filter(Boolean).slice(-40).join(", ")}`;
  const legend = models.slice(0, COLOURS - 1).concat(models.length > COLOURS - 1 ? [[`${models.length - COLOURS + 1} others`, models.slice(COLOURS - 1).reduce((sum, [, value]) => sum + value, 0)]] : []);
  return h("div.chart", {},
    s("svg.days", { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" },
      [0, 0.5, 1].map((part) => [s("line.grid", { x1: left, x2: width, y1: y(top * part), y2: y(top * part) }),
        s("text.axis", { x: left - 8, y: y(top * part) + 4, "text-anchor": "end" }, shownAs(top * part, measure))]),
      all.map((day, n) => {
        const x = left + n * step + (step - wide) / 2;
        let from = 0;
        const title = `${DAY.format(new Date(day))}: ${shownAs(totals[n], measure)}`;
        return s("g", {}, s("title", {}, title), s("rect.day-hit", { x: left + n * step, y: above, width: step, height: height - above - bottom }), sums.get(day).map((value, k) => {
          if (!value) return null;
          const y1 = y(from + value);
          const tall = Math.max(1, y(from) - y1);
          from += value;
          return s(`rect.day.hue-fill-${k}`, { x, y: y1, width: wide, height: tall });
        }), n % every === 0 ? s("text.axis", { x: x + wide / 2, y: height - 6, "text-anchor": "middle" }, DAY.format(new Date(day))) : null);
      })),
    h("ul.chart-legend", {}, legend.map(([name, value], n) => h("li", {}, h(`i.swatch.hue-${n % COLOURS}`), h("span", {}, name === null ? "no model named" : visible(name)), h("b", {}, shownAs(value, measure))))));
}

/** A round number that is not below a value. */
function nice(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 4, 5, 8, 10].map((one) => one * unit).find((one) => one >= value * 0.999) ?? value;
}

function toolBars(rows) {
  const byTool = new Map();
  for (const row of rows) {
    const sum = byTool.get(row.tool) ?? { calls: 0, errors: 0 };
    byTool.set(row.tool, { calls: sum.calls + row.calls, errors: sum.errors + row.errors });
  }
  const shown = [...byTool].sort((a, b) => b[1].calls - a[1].calls).slice(0, 14);
  if (!shown.length) return h("p.muted.pad", {}, "No calls in these days.");
  const most = Math.max(1, ...shown.map(([, row]) => Math.max(row.calls, row.errors)));
  return h("ul.bars", {}, shown.map(([name, row]) => h("li.bar-row", {}, h("span.bar-name.mono", {}, visible(name)),
    h("span.bar-numbers", {}, h("b", {}, number(row.calls)), row.errors ? h("span.bad-number", {}, `  ${plural(row.errors, "error")}`) : null),
    s("svg.bar-svg", { role: "img", width: "100%", height: 8, "aria-label": `${name}: ${plural(row.calls, "call")}, ${plural(row.errors, "error")}` },
      s("rect.bar.accent", { x: 0, y: 0, width: `${(row.calls / most) * 100}%`, height: 8, rx: 3 }),
      row.errors ? s("rect.bar.failed", { x: 0, y: 0, width: `${(row.errors / most) * 100}%`, height: 8, rx: 3 }) : null))));
}

function agentRows(rows) {
  const byAgent = new Map();
  for (const row of rows) {
    const sum = byAgent.get(row.agent) ?? { threads: 0, answers: 0, used: 0, cost: 0 };
    byAgent.set(row.agent, { threads: sum.threads + row.threads, answers: sum.answers + row.answers, used: sum.used + row.input_tokens + row.output_tokens, cost: sum.cost + (row.cost_usd ?? 0) });
  }
  const shown = [...byAgent].sort((a, b) => b[1].cost - a[1].cost || b[1].used - a[1].used || b[1].threads - a[1].threads).slice(0, 14);
  return h("div.md-table.plain-table", { tabindex: 0, role: "group", "aria-label": "Agents" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Agent"), ["Threads", "Answers", "Tokens", "Cost"].map((name) => h("th.num", { scope: "col" }, name)))),
    h("tbody", {}, shown.map(([name, row]) => h("tr", {}, h("td", {}, name === null ? h("span.muted", {}, "not named") : h("a", { href: href("scope", { agent: name }) }, visible(name))),
      h("td.num", {}, number(row.threads)), h("td.num", {}, number(row.answers)), h("td.num", {}, row.used ? tokens(row.used) : "–"), h("td.num", {}, row.cost ? money(row.cost) : "–"))))));
}
