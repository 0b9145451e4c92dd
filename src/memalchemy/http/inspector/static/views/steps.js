// The steps of a thread, which several tabs share, and the bar that goes from one to the next.

import { get } from "../api.js";
import { h, put, code } from "../dom.js";
import { icon } from "../icons.js";
import { time } from "../format.js";

const PAGE = 200;

/** Reads the timeline page by page, and remembers what it has read. */
export class Steps {
  constructor(where, signal) {
    this.where = where;
    this.signal = signal;
    this.newest = null;
    this.pages = new Map();
    this.known = new Map();
  }

  async page(cursor) {
    const key = cursor ?? "";
    if (!this.pages.has(key)) {
      const asked = get("timeline", { ...this.where, cursor, limit: PAGE }, this.signal);
      this.pages.set(key, asked);
      asked.then((page) => page.steps.forEach((step) => this.known.set(step.checkpoint_id, step)), () => this.pages.delete(key));
    }
    return this.pages.get(key);
  }

  forget(newest) {
    this.newest = newest;
    this.pages.clear();
  }

  /** Return a step if it is among the newest pages, else null. */
  async find(id, most = 5) {
    let cursor = null;
    for (let n = 0; n < most && !this.known.has(id); n += 1) {
      const page = await this.page(cursor);
      cursor = page.next;
      if (!cursor) break;
    }
    return this.known.get(id) ?? null;
  }

  /** Return the steps before and after one, as they follow in time. */
  async around(id) {
    if (!(await this.find(id))) return { before: null, after: null };
    const all = [...this.known.values()];
    const children = all.filter((step) => step.parent_id === id);
    const after = children.find((step) => step.lane === this.known.get(id).lane) ?? children[0] ?? null;
    return { before: this.known.get(id).parent_id, after: after?.checkpoint_id ?? null };
  }
}

/** A bar that says which step is shown, with links to the one before, the one after, and the newest. */
export function stepBar(context, signal) {
  const bar = h("div.step-bar", { role: "group", "aria-label": "Step" });
  const state = { before: null, after: null };
  const at = context.get("at") ?? context.about().newest_id;

  const to = (id) => context.open({ at: id === context.about().newest_id ? null : id, path: null });
  const arrow = (name, text, id, hint) => h("button.ghost", {
    type: "button", "aria-label": text, title: `${text} (${hint})`, disabled: id === null || id === undefined, on: { click: () => to(id) },
  }, icon(name));

  function draw(step) {
    const newest = at === context.about().newest_id;
    put(bar,
      arrow("left", "The step before", state.before, "["),
      arrow("right", "The step after", state.after, "]"),
      h("span.step-name", {}, newest ? h("span.badge.now", {}, "newest") : h("span.badge", {}, "earlier step"), code(at ?? "", 40)),
      step ? h("span.muted.step-time", {}, time(step.occurred_at ?? step.saved_at)) : null,
      h("span.spacer"),
      newest ? null : h("button.button.small", { type: "button", on: { click: () => to(context.about().newest_id) } }, "Newest"),
      h("a.button.small", { href: context.link({ tab: "timeline", at }) }, "Choose on the timeline"));
  }

  if (at !== null) {
    draw(null);
    context.steps.around(at).then((found) => {
      if (signal.aborted) return;
      Object.assign(state, found);
      draw(context.steps.known.get(at));
    }, () => {});
  } else {
    bar.hidden = true;
  }
  return {
    bar,
    key(pressed) {
      const id = { "[": state.before, "]": state.after }[pressed];
      if (id === null || id === undefined) return false;
      to(id);
      return true;
    },
  };
}
