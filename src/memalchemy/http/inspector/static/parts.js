// Small parts that several views use.

import { h, put, code } from "./dom.js";
import { icon } from "./icons.js";
import { href } from "./router.js";

/** Grey bars where content will be. */
export function skeleton(rows = 6, kind = "line") {
  const widths = ["w1", "w2", "w3", "w4"];
  return h("div.skeleton", { "aria-hidden": "true", data: { kind } },
    Array.from({ length: rows }, (_, n) => h(`div.bone.${widths[n % widths.length]}`)));
}

/** What to say where nothing is: an icon, a sentence, and what to do about it. */
export function empty(name, title, ...text) {
  return h("div.empty", {}, h("div.empty-icon", {}, icon(name)), h("p.empty-title", {}, title),
    text.length ? h("p.muted", {}, text) : null);
}

const ADVICE = {
  404: "It may have been deleted or pruned since this address was made.",
  403: "The token has no right to read this.",
  429: "The server answers fewer requests than were made. Wait a moment, then try again.",
};

/** An error with what to do, and a button that tries again. */
export function failure(problem, again = null) {
  const advice = problem.detail || ADVICE[problem.status] || "Try again. If it stays, look at the server's log.";
  return h("div.failure", { role: "alert" },
    h("div.empty-icon", {}, icon("warning")),
    h("p.empty-title", {}, problem.title || problem.message),
    h("p.muted", {}, advice),
    problem.code ? h("p", {}, h("code.tag", {}, problem.code)) : null,
    again ? h("button.button", { type: "button", on: { click: again } }, "Try again") : null);
}

/** Show a skeleton, then what `load` returns, or what went wrong. */
export async function during(place, signal, load, { rows = 6, kind = "line", quiet = false } = {}) {
  if (!quiet) put(place, skeleton(rows, kind));
  place.setAttribute("aria-busy", "true");
  try {
    const shown = await load();
    if (signal.aborted) return false;
    if (shown !== undefined) put(place, shown);
    return true;
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return false;
    if (!(error.code !== undefined && error.title)) throw error;
    if (!quiet) put(place, failure(error, () => during(place, signal, load, { rows, kind })));
    return false;
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/** A button that copies text, or what a function returns, and says so. */
export function copyButton(text, label = "Copy", drawn = "copy") {
  const button = h("button.ghost.copy", { type: "button", "aria-label": label, title: label }, icon(drawn));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      announce("Copied");
    } catch {
      announce("The browser does not allow copying");
      return;
    }
    put(button, icon("check"));
    button.classList.add("done");
    setTimeout(() => {
      put(button, icon(drawn));
      button.classList.remove("done");
    }, 1400);
  });
  return button;
}

const HUES = 8;
/** The number of a colour that a name always has; the first is that of memalchemy's own threads. */
export function hue(name) {
  if (!name) return 0;
  // With these numbers the frameworks that are often seen side by side have different colours.
  let sum = 20;
  for (const letter of String(name)) sum = (sum * 19 + letter.codePointAt(0)) % 9973;
  return 1 + sum % (HUES - 1);
}

export const ownName = (name) => name || "memalchemy";

/** A framework's name behind a dot of its colour. */
export function framework(name, properties = {}) {
  return h("span.framework", properties, h(`span.dot.hue-${hue(name)}`, { "aria-hidden": "true" }), ownName(name));
}

/** One of several: a row of buttons, of which one is pressed. */
export function choices(label, options, chosen, choose) {
  const group = h("div.choices", { role: "group", "aria-label": label });
  const buttons = options.map(({ value, text, count, dot }) => h("button.choice", {
    type: "button",
    "aria-pressed": String(value === chosen),
    on: {
      click: () => {
        buttons.forEach((one, n) => one.setAttribute("aria-pressed", String(options[n].value === value)));
        choose(value);
      },
    },
  }, dot === undefined ? null : h(`span.dot.hue-${dot}`, { "aria-hidden": "true" }), text,
  count === undefined ? null : h("span.count", {}, count)));
  group.append(...buttons);
  return group;
}

/** A box to tick, with its text; `choose` is called with true or false. */
export function tick(text, about, checked, choose) {
  const box = h("input", { type: "checkbox" });
  box.checked = checked;
  box.addEventListener("change", () => choose(box.checked));
  return h("label.tick", { title: about }, box, text);
}

/** A box beside a search: whether what is found holds all of its words, or any. */
export function tickAllWords(all, choose) {
  return tick("all words", "Only what holds all of the words", all, choose);
}

/** A namespace as a path whose parts are links, if `view` says where they lead. */
export function namespacePath(namespace, view = null) {
  if (!namespace?.length) return h("span.muted", {}, "root");
  return h("span.path", {}, namespace.map((part, n) => [
    n ? h("span.slash", { "aria-hidden": "true" }, "/") : null,
    view ? h("a", { href: href(view, { ns: namespace.slice(0, n + 1) }) }, code(part, 40)) : code(part, 40),
  ]));
}

/** A field to type in, with an icon, a key that leads to it, and a button that empties it. */
export function searchField({ label, value, placeholder, onInput, main = true, wide = false }) {
  const input = h("input", {
    type: "search", "aria-label": label, placeholder, value, autocomplete: "off", spellcheck: "false",
    maxlength: 1000, data: main ? { field: "" } : {},
  });
  let timer = 0;
  let last = value ?? "";
  const tell = () => {
    clearTimeout(timer);
    if (input.value === last) return;
    last = input.value;
    onInput(last);
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(tell, 140);
  });
  input.addEventListener("search", tell);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") tell();
  });
  return h("div.field", { class: wide ? "wide" : "" }, icon("search"), input,
    main ? h("kbd", { "aria-hidden": "true" }, "/") : null);
}

/**
 * A list that asks for its next page when its end comes into view.
 *
 * `load(cursor, signal)` returns `{rows, next}`, `draw(row)` an element, `key(row)` what tells rows
 * apart, `nothing()` what to show instead of no rows. `renew()` reads the first page again and
 * keeps the elements of rows that have not changed.
 */
export function pagedList({ load, draw, key, nothing, signal, label, tag = "ul", rows = 8, kind = "row" }) {
  const list = h(`${tag}.list`, { "aria-label": label });
  const end = h("div.list-end");
  const place = h("div.paged", {}, list, end);
  let next = null;
  let busy = false;
  let asked = 0;
  let shown = new Map();

  const observer = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && next !== null && !busy) more();
  }, { rootMargin: "600px" });
  observer.observe(end);
  signal.addEventListener("abort", () => observer.disconnect());

  function add(rows_) {
    for (const row of rows_) {
      const id = key(row);
      if (shown.has(id)) continue;
      const element = draw(row);
      shown.set(id, { element, text: JSON.stringify(row) });
      list.append(element);
    }
  }

  function finish() {
    if (next === null && !shown.size) put(end, nothing());
    else if (next === null) put(end);
    else put(end, h("button.button.more", { type: "button", on: { click: () => more() } }, "Load more"));
    if (next !== null) {
      // An observer reports changes only: ask it anew, for the end may still be in view.
      observer.unobserve(end);
      observer.observe(end);
    }
  }

  async function more() {
    busy = true;
    const mine = asked;
    put(end, skeleton(2, kind));
    try {
      const page = await load(next, signal);
      if (signal.aborted || mine !== asked) return;
      add(page.rows);
      next = page.next ?? null;
      busy = false;
      finish();
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      busy = false;
      put(end, failure(error, () => more()));
    }
  }

  async function start() {
    asked += 1;
    const mine = asked;
    busy = true;
    // Rows stay while the next answer is on its way: typing must not flicker.
    if (!shown.size) put(end, skeleton(rows, kind));
    place.setAttribute("aria-busy", "true");
    try {
      const page = await load(null, signal);
      if (signal.aborted || mine !== asked) return null;
      shown = new Map();
      put(list);
      list.hidden = !page.rows.length && (page.next ?? null) === null;
      add(page.rows);
      next = page.next ?? null;
      busy = false;
      finish();
      return page;
    } catch (error) {
      if (signal.aborted || error.name === "AbortError" || mine !== asked) return null;
      busy = false;
      shown = new Map();
      put(list);
      put(end, failure(error, () => start()));
      return null;
    } finally {
      if (mine === asked) place.removeAttribute("aria-busy");
    }
  }

  async function renew() {
    if (busy) return;
    const mine = asked;
    const page = await load(null, signal).catch(() => null);
    if (page === null || signal.aborted || mine !== asked || busy) return;
    if (!page.rows.length || !shown.size) {
      start();
      return;
    }
    drop(new Set(page.rows.map(key)), page.next === null);
    let after = null;
    for (const row of page.rows) {
      const id = key(row);
      const text = JSON.stringify(row);
      let one = shown.get(id);
      if (!one || one.text !== text) {
        const element = draw(row);
        element.classList.add("fresh");
        const focused = one?.element.contains(document.activeElement);
        one?.element.remove();
        one = { element, text };
        shown.set(id, one);
        place_(element, after);
        if (focused) element.querySelector("a, button")?.focus();
      } else if ((after ? after.nextSibling : list.firstChild) !== one.element && !one.element.contains(document.activeElement)) {
        place_(one.element, after);
      }
      after = one.element;
    }
    list.hidden = false;
  }

  /** Take out rows that are gone: those that stood before the last one that is still there. */
  function drop(there, isAll) {
    const byElement = new Map([...shown].map(([id, one]) => [one.element, id]));
    const order = [...list.children].map((element) => byElement.get(element));
    const last = isAll ? order.length : order.findLastIndex((id) => there.has(id));
    for (const id of order.slice(0, Math.max(last, 0))) {
      if (there.has(id)) continue;
      shown.get(id)?.element.remove();
      shown.delete(id);
    }
  }

  function place_(element, after) {
    if (after) after.after(element);
    else list.prepend(element);
  }

  return { element: place, list, start, renew };
}

let region = null;
/** The live region that screen readers speak. */
export function announcer() {
  region = h("div.unseen", { role: "status", "aria-live": "polite", id: "announcer" });
  return region;
}

/** Let a screen reader say something. */
export function announce(text) {
  if (!region) return;
  region.textContent = "";
  setTimeout(() => {
    region.textContent = text;
  }, 60);
}

/** Pairs of a term and its value. */
export function facts(pairs, properties = {}) {
  return h("dl.facts", properties, pairs.filter(Boolean).map(([term, value]) =>
    h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}
