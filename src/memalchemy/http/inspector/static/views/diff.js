// The difference of two steps, as additions, removals and changes.

import { get } from "../api.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { number, plural, time } from "../format.js";
import { copyButton, during, empty } from "../parts.js";
import { plain, tree } from "../tree.js";

const SIGNS = { added: "+", removed: "−", changed: "~" };
const LINES = 400;

export function diff(context) {
  const { root, signal, where, steps } = context;
  const place = h("div.diff");
  const head = h("div.diff-head");
  put(root, head, place);

  if (context.about().newest_id === null) {
    put(root, empty("swap", "Nothing to compare", "A difference is that of two steps; this thread has entries only."));
    return {};
  }

  let a = context.get("a");
  let b = context.get("b");

  async function pick() {
    b = b ?? context.get("at") ?? context.about().newest_id;
    a = a ?? (await steps.find(b))?.parent_id ?? null;
  }

  function side(letter, id, step) {
    const change = (to) => (letter === "a" ? { a: to, b } : { a, b: to });
    const child = id === null ? null : [...steps.known.values()].find((one) => one.parent_id === id && one.lane === step?.lane);
    const arrow = (name, text, to) => h("button.ghost", { type: "button", "aria-label": text, title: text, disabled: (to ?? null) === null, on: { click: () => context.open(change(to)) } }, icon(name));
    return h("div.diff-side", { class: `side-${letter}` },
      h("span.diff-letter", { "aria-hidden": "true" }, letter === "a" ? "−" : "+"),
      h("span.diff-step", {}, h("span.muted.small", {}, letter === "a" ? "Before" : "After"), id !== null ? code(id, 24) : h("span.muted", {}, "nothing"),
        step ? h("span.muted.small", {}, time(step.occurred_at ?? step.saved_at)) : null),
      arrow("left", letter === "a" ? "An earlier step before" : "An earlier step after", step?.parent_id),
      arrow("right", letter === "a" ? "A later step before" : "A later step after", child?.checkpoint_id));
  }

  async function draw() {
    await pick();
    if (signal.aborted) return undefined;
    const [one, two] = await Promise.all([a !== null ? steps.find(a) : null, steps.find(b)]);
    put(head, side("a", a, one),
      h("button.ghost", { type: "button", "aria-label": "Swap the two steps", title: "Swap", disabled: a === null, on: { click: () => context.open({ a: b, b: a }) } }, icon("swap")),
      side("b", b, two));
    if (a === null) {
      return empty("swap", "This is the first step", "Nothing comes before it. Choose another step on the timeline.");
    }
    const raw = context.get("raw") ?? null;
    const got = await get("diff", { ...where, a, b, ...(raw ? { raw } : {}) }, signal);
    const rest = got.hidden
      ? h("p.muted.small", {}, `${plural(got.hidden, "change")} of the framework's own bookkeeping ${got.hidden === 1 ? "is" : "are"} hidden. `, h("a", { href: context.link({ tab: "diff", a, b, raw: "1" }) }, "Show"))
      : null;
    if (!got.changes.length) return [empty("check", "No difference", "The two steps hold the same values."), rest];
    const counts = { added: 0, removed: 0, changed: 0 };
    got.changes.forEach((change) => {
      counts[change.op] += 1;
    });
    return [
      h("p.diff-sum", { role: "status" }, h("span.sum", {}, plural(got.total, "change")),
        Object.entries(counts).filter(([, count]) => count).map(([op, count]) => h("span.sum", { class: `op-${op}` }, `${SIGNS[op]}${number(count)} ${op}`)),
        got.truncated ? h("span.muted", {}, ` The first ${number(got.changes.length)} are shown.`) : null,
        h("span.spacer"), h("a.button.small", { href: context.link({ tab: "timeline", a: null, b: null }) }, "Choose on the timeline")),
      h("ul.changes", { "aria-label": "Changes" }, got.changes.map((one_) => change(one_, context))),
      rest,
    ];
  }
  during(place, signal, draw, { rows: 8 });
  return {};
}

function change({ op, path, a, b }, context) {
  const parts = path.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const body = op === "changed" ? both(a, b, path, context) : [block(op === "added" ? "plus" : "minus", op === "added" ? b : a, path, context)];
  return h("li.change", { class: `op-${op}`, data: { row: "" }, tabindex: -1 },
    h("div.change-head", {}, h("span.sign", { title: op }, SIGNS[op], h("span.unseen", {}, ` ${op}`)),
      h("span.change-path", {}, parts.length ? parts.map((part, n) => [n ? h("span.slash", {}, "/") : null, code(part, 60)]) : "the whole state"),
      h("span.spacer"), copyButton(path, "Copy the path")),
    h("div.change-body", {}, body));
}

function load(context, step) {
  return (path, offset) => get("state", { ...context.where, at: context.get(step) ?? context.get("at"), path, offset }, context.signal).then((got) => got.node);
}

function block(kind, node, path, context) {
  const sign = kind === "plus" ? "+" : "−";
  return h("div.side", { class: kind }, h("span.gutter", { "aria-hidden": "true" }, sign), h("div.side-body", {}, isText(node) && String(node.text ?? node.value ?? "").length < 20000 && !node.cut
    ? h("div.line", {}, visible(String(node.text ?? node.value ?? "")))
    : tree(node, { load: load(context, kind === "plus" ? "b" : "a"), path, label: kind === "plus" ? "After" : "Before", open: 1 })));
}

const isText = (node) => node?.type === "string" || node?.type === "str";

function both(a, b, path, context) {
  if (isText(a) && isText(b) && !a.cut && !b.cut) return lines(String(a.text ?? a.value ?? ""), String(b.text ?? b.value ?? ""));
  if (a?.children || b?.children) return [block("minus", a, path, context), block("plus", b, path, context)];
  return [row("minus", [h("ins", {}, visible(plain(a)))]), row("plus", [h("ins", {}, visible(plain(b)))])];
}

const row = (kind, content) => h("div.side", { class: kind }, h("span.gutter", { "aria-hidden": "true" }, { minus: "−", plus: "+", same: "" }[kind]),
  h("div.side-body", {}, h("div.line", {}, content)));

/** Two texts, line by line as git shows them; in a pair of changed lines what differs is marked. */
function lines(before, after) {
  const old = before.split("\n");
  const fresh = after.split("\n");
  if (old.length * fresh.length > LINES * LINES) return [row("minus", visible(before)), row("plus", visible(after))];
  const ops = compared(old, fresh);
  const drawn = [];
  for (let n = 0; n < ops.length;) {
    if (ops[n].kind === "same") {
      let end = n;
      while (end < ops.length && ops[end].kind === "same") end += 1;
      const run = ops.slice(n, end);
      const first = n === 0 ? 0 : 2;
      const last = end === ops.length ? 0 : 2;
      if (run.length > first + last + 1) {
        drawn.push(...run.slice(0, first).map((one) => row("same", visible(one.text))));
        drawn.push(h("div.side.skipped", {}, h("span.gutter"), h("div.side-body", {}, plural(run.length - first - last, "same line"))));
        drawn.push(...(last ? run.slice(-last) : []).map((one) => row("same", visible(one.text))));
      } else {
        drawn.push(...run.map((one) => row("same", visible(one.text))));
      }
      n = end;
      continue;
    }
    const gone = [];
    const come = [];
    while (n < ops.length && ops[n].kind !== "same") {
      (ops[n].kind === "minus" ? gone : come).push(ops[n].text);
      n += 1;
    }
    const pairs = gone.map((text, index) => (index < come.length ? marked(text, come[index]) : [visible(text), null]));
    drawn.push(...pairs.map(([left]) => row("minus", left)));
    drawn.push(...come.map((text, index) => row("plus", index < pairs.length ? pairs[index][1] : visible(text))));
  }
  return drawn;
}

function compared(old, fresh) {
  const table = Array.from({ length: old.length + 1 }, () => new Uint16Array(fresh.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      table[i][j] = old[i] === fresh[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const ops = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      ops.push({ kind: "same", text: old[i] });
      i += 1;
      j += 1;
    } else if (j >= fresh.length || (i < old.length && table[i + 1][j] >= table[i][j + 1])) {
      ops.push({ kind: "minus", text: old[i] });
      i += 1;
    } else {
      ops.push({ kind: "plus", text: fresh[j] });
      j += 1;
    }
  }
  return ops;
}

/** Mark what lies between the common beginning and the common end, in whole words. */
function marked(old, fresh) {
  const a = old.match(/\s+|[\p{L}\p{N}_]+|./gsu) ?? [];
  const b = fresh.match(/\s+|[\p{L}\p{N}_]+|./gsu) ?? [];
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from += 1;
  let end = 0;
  while (end < a.length - from && end < b.length - from && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const part = (words) => {
    const middle = words.slice(from, words.length - end).join("");
    return [visible(words.slice(0, from).join("")), middle ? h("ins", {}, visible(middle)) : null, visible(words.slice(words.length - end).join(""))];
  };
  if (!from && !end) return [visible(old), visible(fresh)];
  return [part(a), part(b)];
}
