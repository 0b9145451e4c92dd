// A state's or a log's messages, as people read them.

import { get } from "../api.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { number, plural, time } from "../format.js";
import { during, empty, failure } from "../parts.js";
import { tree } from "../tree.js";
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
  const bar = stepBar(context, signal);
  const place = h("div.messages-place");
  put(root, bar.bar, place);
  let shown = null;

  const ask = (before = null) => get("transcript", { ...where, at, before, limit: PAGE }, signal);

  async function draw() {
    const got = await ask();
    shown = got;
    if (!got.messages.length) {
      return [
        got.rest ? null : empty("threads", "No messages here", "This thread's states hold no messages. Its values stand under State."),
        got.rest ? [h("p.note", {}, "This state holds no messages."), rest(got.rest, context)] : null,
      ];
    }
    const list = h("ol.messages", { "aria-label": "Messages" }, got.messages.map((message) => messageRow(message, context)));
    return [
      earlier(got, list),
      list,
      got.rest ? rest(got.rest, context) : null,
    ];
  }

  function earlier(got, list) {
    if (got.previous === null || got.previous === undefined) return null;
    const line = h("div.earlier");
    const fill = (page) => {
      const left = got.source === "state" ? page.messages[0]?.index ?? 0 : 0;
      const button = h("button.button", { type: "button" }, left ? `Show earlier messages (${number(left)} more)` : "Show earlier messages");
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          const before = await ask(page.previous);
          const first = list.firstElementChild;
          list.prepend(...before.messages.map((message) => messageRow(message, context)));
          if (before.previous === null || before.previous === undefined) put(line);
          else fill(before);
          first?.scrollIntoView({ block: "center" });
        } catch (error) {
          if (error.name !== "AbortError") put(line, failure(error, () => fill(page)));
        }
      });
      put(line, button, h("span.muted", {}, `The last ${number(got.messages.length)} of ${plural(got.total, "message")}.`),
        h("button.button", { type: "button", on: { click: () => list.lastElementChild.scrollIntoView({ block: "end" }) } }, icon("down"), "Newest message"));
    };
    fill(got);
    return line;
  }

  during(place, signal, draw, { rows: 8, kind: "message" });
  return {
    key: bar.key,
    async renew() {
      // A step that was chosen does not change; the newest grows at its end.
      if (at) return;
      const list = place.querySelector(".messages");
      const got = await ask().catch(() => null);
      if (got === null || signal.aborted) return;
      const last = shown?.messages.at(-1);
      const same = list && last && got.messages.find((one) => one.index === last.index && one.text === last.text);
      if (same) {
        const main = document.getElementById("main");
        const atEnd = main.scrollHeight - main.scrollTop - main.clientHeight < 160;
        for (const message of got.messages.filter((one) => one.index > last.index)) {
          const row = messageRow(message, context);
          row.classList.add("fresh");
          list.append(row);
        }
        shown = { ...got, messages: got.messages };
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
  return h("li.message", { class: `role-${kind}`, id: `message-${message.index}`, data: { row: "" }, tabindex: -1 },
    h("div.message-side", {},
      h("span.avatar", { "aria-hidden": "true" }, icon(kind === "other" ? "threads" : kind)),
      h("div.message-who", {}, h("span.role", {}, visible(role)), message.name ? h("span.who", {}, code(message.name, 32)) : null)),
    h("div.message-body", {},
      message.thought ? fold("thought", "Thought", [h("span.fold-line", {}, visible(firstLine(message.thought)))], h("p.thought-text", {}, visible(message.thought))) : null,
      message.text && !message.value ? longText(message, context) : null,
      calls.map(call),
      results.map(result),
      message.value ? tree(message.value, { load: entryOf(message, context), label: `Entry ${message.index}`, open: 1 }) : null,
      !message.text && !message.thought && !calls.length && !results.length && !message.value ? h("p.muted", {}, "empty") : null),
    h("div.message-foot", {}, message.occurred_at ? time(message.occurred_at) : null,
      h("span.index", { title: "The message's number" }, `#${message.index}`)));
}

const entryOf = (message, context) => (path, offset) => get("entry", { ...context.where, position: message.index, path, offset }, context.signal).then((got) => got.node);

const firstLine = (text) => {
  const line = String(text).trimStart().split("\n", 1)[0];
  return line.length > 110 ? `${line.slice(0, 110)}…` : line;
};

function longText(message, context) {
  const text = String(message.text);
  const box = h("div.message-text");
  const whole = h("div.text", {}, visible(text));
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

/** A value that is text, or JSON, or a tree's node. */
function value(given, label) {
  if (given === null || given === undefined || given === "") return h("p.muted", {}, "nothing");
  if (typeof given === "object" && typeof given.type === "string" && ("children" in given || "value" in given || "text" in given || "length" in given)) {
    return tree(given, { label, open: 2 });
  }
  return h("pre.text-block", {}, visible(typeof given === "string" ? pretty(given) : JSON.stringify(given, null, 2)));
}

function pretty(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 100000) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
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

function result(one) {
  return fold("result", one.name ? code(one.name, 48) : "Result",
    [one.error ? h("span.badge.bad", {}, "error") : null, h("span.fold-line.mono", {}, visible(firstLine(oneLine(one.text)))), h("span.fold-id", {}, code(one.id ?? "", 18))],
    value(one.text, "Result"), { class: `fold-result${one.error ? " failed" : ""}` });
}
