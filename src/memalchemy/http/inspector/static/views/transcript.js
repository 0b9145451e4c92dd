// A state's or a log's messages, as people read them.

import { get } from "../api.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { marker } from "../found.js";
import { duration, money, number, plural, time, tokens } from "../format.js";
import { markdown } from "../markdown.js";
import { copyButton, during, empty, failure } from "../parts.js";
import { nodeOf, tree } from "../tree.js";
import { table, tableOf } from "../table.js";
import { stepBar } from "./steps.js";

const PAGE = 100;
const FOLDED = 1200;
const ROLES = {
  user: ["user", "User"], human: ["user", "User"],
  assistant: ["assistant", "Assistant"], ai: ["assistant", "Assistant"], model: ["assistant", "Assistant"],
  tool: ["tool", "Tool"], function: ["tool", "Tool"],
  system: ["system", "System"], developer: ["system", "Developer"],
};

export function transcript(context) {
  const { root, signal, where } = context;
  const at = context.get("at");
  const find = context.get("find");
  const around = context.get("around");
  const bar = stepBar(context, signal);
  const place = h("div.messages-place");
  const foundBar = h("div.found-bar", { role: "status", hidden: true });
  put(root, bar.bar, foundBar, place);
  let shown = null;
  let mark = null;
  let origins = [];

  const ask = (more = {}) => get("transcript", { ...where, at, limit: PAGE, ...more }, signal);
  const draw1 = (message) => {
    const row = messageRow(message, context);
    mark?.(row.querySelector(".message-body"));
    return row;
  };

  async function draw() {
    const got = await ask({ find: find || null, around });
    shown = got;
    mark = marker(got.words);
    if (!got.messages.length) {
      land(got, place);
      return [
        got.rest ? null : empty("threads", "No messages here", "This thread's states hold no messages. Its values stand under State."),
        got.rest ? [h("p.note", {}, "This state holds no messages."), rest(got.rest, context)] : null,
      ];
    }
    const list = h("ol.messages", { "aria-label": "Messages" }, got.messages.map(draw1));
    setTimeout(() => {
      land(got, list);
      place_(list);
    }, 0);
    return [
      edge(got, list, "previous"),
      list,
      edge(got, list, "later"),
      got.rest ? rest(got.rest, context) : null,
    ];
  }

  /** Go to the message that the search found, and say so. */
  function land(got, list) {
    const wanted = around !== null ? Number(around) : got.found?.at(-1);
    if (wanted === undefined || wanted === null) {
      if (find) {
        foundBar.hidden = false;
        put(foundBar, icon("search"), h("span", {}, "No message holds ", h("mark", {}, visible(find)), ": it is elsewhere in the state of this step."),
          h("a.button.small", { href: context.link({ tab: "state", find: null, around: null }) }, "Look into the state"));
      }
      return;
    }
    const row = list.querySelector(`#message-${CSS.escape(String(wanted))}`);
    if (!row) return;
    row.classList.add("hit-message");
    (row.querySelector("mark") ?? row).scrollIntoView({ block: "center" });
    row.querySelectorAll("details.fold").forEach((one) => {
      if (one.querySelector("mark")) one.open = true;
    });
    row.querySelector("mark")?.scrollIntoView({ block: "center" });
    if (!find) return;
    foundBar.hidden = false;
    const others = got.found ?? [];
    const n = others.indexOf(wanted);
    const go = (step) => context.open({ around: String(others[n + step]) });
    const arrow = (name, text, step) => h("button.ghost", { type: "button", "aria-label": text, title: text, disabled: n < 0 || others[n + step] === undefined, on: { click: () => go(step) } }, icon(name));
    put(foundBar, icon("search"), h("span", {}, (got.words ?? []).slice(0, 6).map((word, k) => [k ? " " : "", h("mark", {}, visible(word))]), n < 0 ? ` in message #${wanted}` : ` in ${plural(others.length, "message")}, this is #${wanted}`),
      h("span.spacer"), others.length > 1 ? [arrow("up", "The hit before", -1), arrow("down", "The hit after", 1)] : null,
      h("a.button.small", { href: context.link({ find: null, around: null }) }, "Done"));
  }

  /** Where the list begins or ends, a button for what is beyond. */
  function edge(got, list, side) {
    const isLater = side === "later";
    if (got[side] === null || got[side] === undefined) return null;
    const line = h("div.earlier");
    const fill = (page) => {
      const left = got.source !== "state" ? 0 : isLater ? got.total - 1 - page.later : page.messages[0]?.index ?? 0;
      const text = isLater ? "Show later messages" : "Show earlier messages";
      const button = h("button.button", { type: "button" }, left ? `${text} (${number(left)} more)` : text);
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          const more = await ask(isLater ? { after: page.later } : { before: page.previous });
          const first = list.firstElementChild;
          const rows = more.messages.map(draw1);
          if (isLater) list.append(...rows);
          else list.prepend(...rows);
          date(list);
          if (more[side] === null || more[side] === undefined) put(line);
          else fill(more);
          if (!isLater) first?.scrollIntoView({ block: "center" });
        } catch (error) {
          if (error.name !== "AbortError") put(line, failure(error, () => fill(page)));
        }
      });
      put(line, button, isLater ? h("a.button", { href: context.link({ find: null, around: null }) }, "The newest") : h("span.muted", {}, `${number(got.messages.length)} of ${plural(got.total, "message")}.`),
        isLater ? null : h("button.button", { type: "button", on: { click: () => list.lastElementChild.scrollIntoView({ block: "end" }) } }, icon("down"), got.later === null ? "Newest message" : "Last of these"));
    };
    fill(got);
    return line;
  }

  /** Read with which step each message came, and show its time. */
  async function place_(list) {
    if (shown?.source !== "state") {
      date(list);
      return;
    }
    const got = await get("origins", { ...where, at }, signal).catch(() => null);
    if (got === null || signal.aborted) return;
    origins = got.messages;
    date(list);
  }

  /** Show the time of each message, and the time since the one before it. */
  function date(list) {
    let before = null;
    for (const row of list.children) {
      const origin = origins[Number(row.dataset.index)] ?? null;
      const stated = row.dataset.at || origin?.occurred_at || null;
      const slot = row.querySelector(".message-time");
      const moment = stated ? Date.parse(stated) : null;
      const gap = moment !== null && before !== null ? moment - before : 0;
      put(slot, stated ? (origin ? h("a.message-step", { href: context.link({ at: origin.checkpoint_id, find: null, around: null }), title: `Step ${origin.checkpoint_id.slice(0, 80)}${origin.node ? ` of ${origin.node.slice(0, 40)}` : ""}` }, time(stated)) : time(stated)) : null,
        gap >= 500 ? h("span.gap", { title: "Since the message before" }, `+${duration(gap)}`) : null);
      if (moment !== null) before = moment;
    }
  }

  during(place, signal, draw, { rows: 8, kind: "message" });
  return {
    key: bar.key,
    async renew() {
      // A step that was chosen does not change; the newest grows at its end.
      if (at || find || around) return;
      const list = place.querySelector(".messages");
      const got = await ask().catch(() => null);
      if (got === null || signal.aborted) return;
      const last = shown?.messages.at(-1);
      const same = list && last && got.messages.find((one) => one.index === last.index && one.text === last.text);
      if (same) {
        const main = document.getElementById("main");
        const atEnd = main.scrollHeight - main.scrollTop - main.clientHeight < 160;
        for (const message of got.messages.filter((one) => one.index > last.index)) {
          const row = draw1(message);
          row.classList.add("fresh");
          list.append(row);
        }
        shown = { ...got, messages: got.messages };
        place_(list);
        if (atEnd) list.lastElementChild.scrollIntoView({ block: "end" });
      } else {
        during(place, signal, draw, { quiet: true });
      }
    },
  };
}

function rest(node, context) {
  const load = (path, offset) => get("state", { ...context.where, at: context.get("at"), path, offset }, context.signal).then((got) => got.node);
  return h("details.fold.rest", {}, h("summary", {}, icon("chevron"), "The rest of the state", h("span.type", {}, `${number(node.length ?? 0)}`)),
    tree(node, { load, label: "The rest of the state" }));
}

function messageRow(message, context) {
  const [kind, role] = ROLES[String(message.role).toLowerCase()] ?? ["other", message.role || "Entry"];
  const results = message.results ?? [];
  const calls = message.calls ?? [];
  return h("li.message", { class: `role-${kind}`, id: `message-${message.index}`, data: { row: "", index: message.index, at: message.occurred_at ?? "" }, tabindex: -1 },
    h("div.message-side", {},
      h("span.avatar", { "aria-hidden": "true" }, icon(kind === "other" ? "threads" : kind)),
      h("div.message-who", {}, h("span.role", {}, visible(role)), message.name ? h("span.who", {}, code(message.name, 32)) : null)),
    h("div.message-body", {},
      message.thought ? fold("thought", "Thought", [h("span.fold-line", {}, visible(firstLine(message.thought)))], h("p.thought-text", {}, visible(message.thought))) : null,
      message.text && !message.value ? longText(message, context) : null,
      calls.map(call),
      results.map((one) => result(one, results.length === 1)),
      message.value ? tree(message.value, { load: entryOf(message, context), label: `Entry ${message.index}`, open: 1 }) : null,
      !message.text && !message.thought && !calls.length && !results.length && !message.value ? h("p.muted", {}, "empty") : null),
    h("div.message-foot", {}, message.text ? copyButton(message.text, "Copy the message") : null, took(message.usage), h("span.message-time", {}, message.occurred_at ? time(message.occurred_at) : null),
      h("span.index", { title: "The message's number" }, `#${message.index}`)));
}

/** What an answer took: its model, tokens, cost and latency. */
function took(usage) {
  if (!usage) return null;
  const used = usage.input_tokens === undefined && usage.output_tokens === undefined ? null
    : h("span", { title: `${number(usage.input_tokens)} tokens in${usage.cached_tokens ? `, ${number(usage.cached_tokens)} of them cached` : ""}, ${number(usage.output_tokens)} out` }, `${tokens(usage.input_tokens)} → ${tokens(usage.output_tokens)} tokens`);
  return h("span.took", {}, usage.model ? h("span.took-model", {}, visible(usage.model.slice(0, 60))) : null, used,
    usage.cost_usd === undefined ? null : h("span", {}, money(usage.cost_usd)),
    usage.latency_ms === undefined ? null : h("span", { title: "Latency of the answer" }, duration(usage.latency_ms)));
}

const entryOf = (message, context) => (path, offset) => get("entry", { ...context.where, position: message.index, path, offset }, context.signal).then((got) => got.node);

const firstLine = (text) => {
  const line = String(text).trimStart().split("\n", 1)[0];
  return line.length > 110 ? `${line.slice(0, 110)}…` : line;
};

function longText(message, context) {
  const text = String(message.text);
  const box = h("div.message-text");
  const whole = message.truncated ? h("div.text", {}, visible(text)) : markdown(text);
  box.append(whole);
  if (text.length > FOLDED * 2 || message.truncated) {
    whole.classList.add("folded");
    const button = h("button.button.small", { type: "button", "aria-expanded": "false" }, `Show all ${message.truncated ? "" : number(text.length)} characters`.replace("  ", " "));
    button.addEventListener("click", async () => {
      const folded = whole.classList.toggle("folded");
      button.setAttribute("aria-expanded", String(!folded));
      button.textContent = folded ? "Show all characters" : "Fold";
      if (message.truncated && !folded) {
        button.disabled = true;
        try {
          const got = await get("text", { ...context.where, at: context.get("at"), index: message.index }, context.signal);
          const most = 400000;
          put(whole, visible(got.text.slice(0, most)));
          if (got.text.length > most) whole.append(h("p.cut", {}, `The first ${number(most)} of ${number(got.length ?? got.text.length)} characters.`));
          message.truncated = false;
        } catch (error) {
          if (error.name !== "AbortError") box.append(failure(error));
        }
        button.disabled = false;
      }
    });
    box.append(button);
  }
  return box;
}

function fold(kind, name, line, body, properties = {}) {
  return h("details.fold", { class: `fold-${kind}`, ...properties }, h("summary", {}, icon("chevron"), icon(kind), h("span.fold-name", {}, name), line), h("div.fold-body", {}, body));
}

/** A value that is text, or JSON, or a tree's node: a table if it is one, else a tree. */
function value(given, label) {
  if (given === null || given === undefined || given === "") return h("p.muted", {}, "nothing");
  if (typeof given === "object" && typeof given.type === "string" && ("children" in given || "value" in given || "text" in given || "length" in given)) {
    return tree(given, { label, open: 2 });
  }
  if (typeof given !== "string") return tree(nodeOf(given), { label, open: 2 });
  const read = parsed(given);
  if (read !== undefined) return table(read) ?? tree(nodeOf(read), { label, open: 2 });
  return /(^|\n)(#{1,4} |```|[-*] |\|.*\|)/.test(given) ? markdown(given) : h("pre.text-block", { tabindex: 0 }, visible(given));
}

/** The value of a text that is JSON, or undefined. */
function parsed(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 100000) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function oneLine(given) {
  if (given === null || given === undefined) return "";
  let read = given;
  if (typeof given === "string" && /^\s*[[{]/.test(given) && given.length < 20000) {
    try {
      read = JSON.parse(given);
    } catch {
      read = given;
    }
  }
  if (typeof read === "string") return read.slice(0, 400).replace(/\s+/g, " ");
  const pairs = Array.isArray(read.children) ? read.children.map(({ key, node }) => [key, node.value ?? node.text ?? "…"]) : Object.entries(read);
  return pairs.slice(0, 6).map(([key, one]) => `${Array.isArray(read) ? "" : `${key}: `}${typeof one === "string" ? one.slice(0, 80) : JSON.stringify(one)}`).join(", ");
}

function call(one) {
  return fold("tool", code(one.name || "tool", 48), [h("span.fold-line.mono", {}, visible(firstLine(oneLine(one.arguments)))), h("span.fold-id", {}, code(one.id ?? "", 18))],
    value(one.arguments, "Arguments"));
}

function result(one, alone) {
  const line = firstLine(oneLine(one.text));
  const isShort = alone && !one.error && parsed(one.text) === undefined && one.text.length < 400 && one.text.includes("\n");
  return fold("result", one.name ? code(one.name, 48) : "Result",
    [one.error ? h("span.badge.bad", {}, "error") : null, h("span.fold-line.mono", {}, visible(line)), h("span.fold-id", {}, code(one.id ?? "", 18))],
    value(one.text, "Result"), { class: `fold-result${one.error ? " failed" : ""}`, open: isShort || tableOf(parsed(one.text)) !== null });
}
