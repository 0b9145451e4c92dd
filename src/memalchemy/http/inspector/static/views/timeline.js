// The steps of a thread, newest first, with branches as lanes.

import { h, s, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { bytes, duration, full, money, number, plural, time, tokens } from "../format.js";
import { empty, facts, pagedList } from "../parts.js";
import { nodeOf, tree } from "../tree.js";
import { entries } from "./entries.js";

const ROW = 46;
const GAP = 16;
const LEFT = 14;
const MOST = 12;
const COLOURS = 6;

const x = (lane) => LEFT + Math.min(lane, MOST - 1) * GAP;

/** Remembers which lines run on below the rows drawn so far. */
class Lanes {
  constructor() {
    this.waiting = [];
    this.ending = 0;
  }

  /** Draw one row: the lines that pass, those that end here, the step, and its line down. */
  row(step, lanes) {
    const y = ROW / 2;
    const own = step.lane;
    this.ending = this.waiting.filter((one) => one.parent === step.checkpoint_id).length;
    const parts = [];
    const line = (lane, d) => parts.push(s(`path.lane.lane-${lane % COLOURS}`, { d }));
    const left = [];
    for (const one of this.waiting) {
      if (one.parent !== step.checkpoint_id && one.lane === own) {
        // The step that this line goes on with was deleted.
        parts.push(s(`path.lane.gap.lane-${own % COLOURS}`, { d: `M${x(own)} 0V${y}` }));
      } else if (one.parent !== step.checkpoint_id) {
        line(one.lane, `M${x(one.lane)} 0V${ROW}`);
        left.push(one);
      } else if (one.lane === own) {
        line(own, `M${x(own)} 0V${y}`);
      } else {
        line(one.lane, `M${x(one.lane)} 0C${x(one.lane)} ${y} ${x(one.lane)} ${y} ${x(own)} ${y}`);
      }
    }
    if (step.parent_id) {
      line(own, `M${x(own)} ${y}V${ROW}`);
      left.push({ lane: own, parent: step.parent_id });
    }
    this.waiting = left;
    const dot = step.newest
      ? [s(`circle.lane-halo.lane-${own % COLOURS}`, { cx: x(own), cy: y, r: 8 }), s(`circle.lane-dot.lane-${own % COLOURS}`, { cx: x(own), cy: y, r: 4.5 })]
      : s(`circle.lane-dot.lane-${own % COLOURS}`, { cx: x(own), cy: y, r: 4.5 });
    const width = x(Math.min(lanes, MOST) - 1) + LEFT;
    return s("svg.lanes", { width, height: ROW, viewBox: `0 0 ${width} ${ROW}`, "aria-hidden": "true", focusable: "false" }, parts, dot);
  }
}

export function timeline(context) {
  const { root, signal, where, steps } = context;
  const about = context.about();
  if (!about.checkpoints) return entries(context);

  let lanes = new Lanes();
  let most = 1;
  let chosen = context.get("at") ?? about.newest_id;
  const compared = [];
  const buttons = new Map();
  const side = h("aside.step-side", { "aria-label": "The chosen step", "aria-live": "polite" });
  const compare = h("div.compare-bar", { role: "status", hidden: true });

  const list = pagedList({
    signal, label: "Steps, newest first", tag: "ol", kind: "row", rows: 12,
    key: (step) => step.checkpoint_id,
    load: async (cursor) => {
      if (cursor === null) lanes = new Lanes();
      const page = await steps.page(cursor);
      most = Math.max(most, page.lanes ?? 1, ...page.steps.map((step) => step.lane + 1));
      return { rows: page.steps, next: page.next };
    },
    draw: row,
    nothing: () => empty("branch", "No steps", "This thread has no steps yet."),
  });

  function row(step) {
    const drawn = lanes.row(step, most);
    const box = h("input", { type: "checkbox", "aria-label": `Compare step ${short(step.checkpoint_id)}`, title: "Compare (c)" });
    box.checked = compared.includes(step.checkpoint_id);
    box.addEventListener("change", () => mark(step.checkpoint_id, box.checked));
    const button = h("button.step", {
      type: "button", data: { row: "", id: step.checkpoint_id }, "aria-current": step.checkpoint_id === chosen ? "true" : null,
      on: { click: () => choose(step.checkpoint_id) },
    },
    h("span.step-main", {},
      h("span.step-line", {}, headline(step),
        step.newest ? h("span.badge.now", {}, "newest") : null,
        lanes.ending > 1 ? h("span.badge", {}, icon("branch"), `${lanes.ending} branches`) : null,
        step.interrupt ? h("span.badge.warn", {}, icon("interrupt"), "waits") : null,
        step.writes ? h("span.badge", {}, plural(step.writes, "write")) : null),
      h("span.step-meta", {}, said(step))),
    h("span.step-took", {}, took(step.digest)),
    h("span.step-when", {}, time(step.occurred_at ?? step.saved_at), since(step)));
    buttons.set(step.checkpoint_id, { button, box });
    return h("li.step-row", {}, h("span.lane-cell", {}, drawn), button, h("label.compare-box", {}, box));
  }

  /** The time since the step that a step follows. */
  function since(step) {
    const parent = steps.known.get(step.parent_id);
    const gap = parent ? Date.parse(step.occurred_at) - Date.parse(parent.occurred_at) : NaN;
    return gap > 0 ? h("span.gap", { title: "Since the step before" }, `+${duration(gap)}`) : null;
  }

  function choose(id) {
    buttons.get(chosen)?.button.removeAttribute("aria-current");
    chosen = id;
    buttons.get(chosen)?.button.setAttribute("aria-current", "true");
    context.replace({ at: id === about.newest_id ? null : id, tab: "timeline" });
    detail();
  }

  function mark(id, yes) {
    if (yes) compared.push(id);
    else compared.splice(compared.indexOf(id), 1);
    while (compared.length > 2) {
      const box = buttons.get(compared.shift())?.box;
      if (box) box.checked = false;
    }
    compare.hidden = !compared.length;
    if (!compared.length) return;
    const order = [...buttons.keys()];
    const [b, a] = [...compared].sort((one, two) => order.indexOf(one) - order.indexOf(two));
    put(compare, a
      ? [h("span", {}, "Compare ", code(a, 18), " with ", code(b, 18)), h("a.button.primary", { href: context.link({ tab: "diff", a, b }) }, "Show the difference")]
      : h("span", {}, "Choose one more step to compare with ", code(b, 18)),
    h("button.ghost", { type: "button", "aria-label": "Compare nothing", on: { click: () => [...compared].forEach((one) => {
      buttons.get(one).box.checked = false;
      mark(one, false);
    }) } }, icon("close")));
  }

  async function detail() {
    const id = chosen;
    const step = await steps.find(id, 3).catch(() => null);
    if (signal.aborted || id !== chosen) return;
    if (!step) {
      put(side, h("p.muted", {}, "Choose a step."));
      return;
    }
    const at = step.newest ? null : id;
    const digest = step.digest ?? {};
    const used = (digest.input_tokens ?? 0) + (digest.output_tokens ?? 0);
    put(side,
      h("div.card-head", {}, h("h2", {}, "Step"), step.newest ? h("span.badge.now", {}, "newest") : null, h("span.spacer")),
      h("p.side-id", {}, code(id, 120)),
      h("div.side-actions", {},
        h("a.button", { href: context.link({ tab: "transcript", at }) }, "Transcript"),
        h("a.button", { href: context.link({ tab: "state", at }) }, "State"),
        step.parent_id !== null ? h("a.button", { href: context.link({ tab: "diff", a: step.parent_id, b: id }) }, "What changed") : null,
        step.writes || step.interrupt ? h("a.button", { href: context.link({ tab: "writes", at }) }, "Writes") : null),
      facts([
        digest.node ? ["Node", visible(digest.node)] : null,
        digest.messages ? ["Messages", [number(digest.messages), digest.added ? h("span.muted", {}, `, ${number(digest.added)} new`) : null]] : null,
        digest.tools?.length ? ["Calls", visible(digest.tools.join(", ").slice(0, 400))] : null,
        digest.model ? ["Model", visible(digest.model.slice(0, 80))] : null,
        used ? ["Tokens", `${tokens(digest.input_tokens)} in, ${tokens(digest.output_tokens)} out`] : null,
        digest.cost_usd !== undefined ? ["Cost", money(digest.cost_usd)] : null,
        digest.latency_ms !== undefined ? ["Latency", duration(digest.latency_ms)] : null,
        ["Happened", step.occurred_at ? h("time", { datetime: step.occurred_at }, full(step.occurred_at)) : "–"],
        step.saved_at && step.saved_at !== step.occurred_at ? ["Saved", h("time", { datetime: step.saved_at }, full(step.saved_at))] : null,
        ["State", bytes(step.raw_bytes)],
        ["Stored", bytes(step.stored_bytes)],
        step.parent_id !== null ? ["Follows", h("button.link.mono", { type: "button", on: { click: () => choose(step.parent_id) } }, code(step.parent_id, 26))] : ["Follows", "nothing: the first"],
        step.writes ? ["Writes", number(step.writes)] : null,
      ], { class: "column" }),
      metadata(step.metadata));
  }

  put(root, h("div.timeline", {}, h("div.timeline-list", {}, list.element, compare), side));
  list.start().then(() => {
    const there = buttons.get(chosen)?.button;
    if (there && chosen !== about.newest_id) there.scrollIntoView({ block: "center" });
  });
  detail();

  return {
    key(pressed) {
      const id = document.activeElement?.dataset?.id;
      if (pressed === "c" && id) {
        const { box } = buttons.get(id);
        box.checked = !box.checked;
        mark(id, box.checked);
        return true;
      }
      if (pressed === "Escape" && compared.length) {
        compare.querySelector(".ghost").click();
        return true;
      }
      return false;
    },
    async renew() {
      // The lanes of the newest page change with it: draw it anew, and stay where one looks.
      const main = document.getElementById("main");
      const top = main.scrollTop;
      const before = new Set(buttons.keys());
      const focused = document.activeElement?.dataset?.id;
      await list.start();
      main.scrollTop = top;
      for (const [id, { button }] of buttons) if (!before.has(id)) button.closest("li").classList.add("fresh");
      if (focused) buttons.get(focused)?.button.focus({ preventScroll: true });
      if (context.get("at") === null) {
        chosen = context.about().newest_id;
        for (const [id, { button }] of buttons) {
          if (id === chosen) button.setAttribute("aria-current", "true");
          else button.removeAttribute("aria-current");
        }
      }
      detail();
    },
  };
}

const short = (id) => (String(id).length > 16 ? `${String(id).slice(0, 12)}…` : id);

/** What a step did, in a word: its node, what it called, or whose message it added. */
function headline(step) {
  const digest = step.digest;
  const name = digest?.node?.replace(/^__(.*)__$/, "$1") ?? (step.metadata?.source === "input" ? "input" : null) ?? (digest?.added ? digest.role || null : null);
  if (name === null) return code(step.checkpoint_id, 22);
  return [h("span.step-node", {}, visible(name.slice(0, 60))),
    (digest?.tools ?? []).slice(0, 2).map((tool) => h("span.step-tool", {}, icon("tool"), visible(tool.slice(0, 40)))),
    digest?.errors ? h("span.badge.bad", {}, plural(digest.errors, "error")) : null];
}

/** What it added, or else its metadata. */
function said(step) {
  if (step.digest?.text) return h("span.step-text", {}, visible(step.digest.text));
  return pairs(step.metadata).map(([key, text]) => h("span.pair", {}, h("span.pair-key", {}, visible(key)), " ", visible(text)));
}

function took(digest) {
  if (!digest) return null;
  const used = (digest.input_tokens ?? 0) + (digest.output_tokens ?? 0);
  return [used ? h("span", { title: `${number(digest.input_tokens)} tokens in, ${number(digest.output_tokens)} out` }, `${tokens(used)} tok`) : null,
    digest.cost_usd !== undefined ? h("span", {}, money(digest.cost_usd)) : null];
}

/** The first pairs of a step's metadata. */
function pairs(given) {
  return Object.entries(given ?? {}).slice(0, 3).map(([key, one]) => [key.slice(0, 24), (typeof one === "string" ? one : JSON.stringify(one)).slice(0, 48)]);
}

function metadata(given) {
  if (!Object.keys(given ?? {}).length) return null;
  return [h("h3", {}, "Metadata"), tree(nodeOf(given), { label: "Metadata", open: 1 })];
}
