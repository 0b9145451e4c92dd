// The keyboard: one table, which the help shows too.

import { h, put } from "./dom.js";
import { icon } from "./icons.js";
import { go } from "./router.js";

const HELP = [
  ["Anywhere", [
    [["/"], "Go to the field one types in"],
    [["g", "t"], "Threads"],
    [["g", "s"], "Store"],
    [["g", "m"], "Memories"],
    [["g", "u"], "Usage"],
    [["g", "q"], "SQL (query)"],
    [["g", "f"], "Search (find)"],
    [["g", "b"], "Storage (bytes)"],
    [["l"], "Pause or continue live refresh"],
    [["d"], "Dark or light"],
    [["?"], "This help"],
  ]],
  ["Lists", [
    [["j"], "Next row"],
    [["k"], "Previous row"],
    [["Enter"], "Open the row"],
    [["Esc"], "Leave the field, or go one level up"],
  ]],
  ["A thread", [
    [["1"], "Transcript; 2 to 5 are the other tabs"],
    [["["], "The step before"],
    [["]"], "The step after"],
    [["c"], "On the timeline: mark a step to compare"],
  ]],
];

const LEADS = { t: "threads", s: "store", m: "memories", u: "use", q: "sql", f: "search", b: "storage" };

const typing = (element) => element.matches?.("input:not([type=checkbox]), textarea, select") ?? false;

/** Listens to the keyboard; `actions` has toggleLive, toggleTheme, and view(), the view shown. */
export class Keys {
  constructor(actions) {
    this.actions = actions;
    this.led = 0;
    this.dialog = null;
    document.addEventListener("keydown", (event) => this.pressed(event));
  }

  pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.dialog?.open) return;
    const { key, target } = event;
    if (typing(target)) {
      if (key === "Escape") {
        target.blur();
        event.preventDefault();
      } else if (key === "ArrowDown" && target.type === "search") {
        this.move(1, true);
        event.preventDefault();
      }
      return;
    }
    if (this.act(key)) event.preventDefault();
  }

  act(key) {
    const led = Date.now() - this.led < 1200;
    this.led = 0;
    if (led && LEADS[key]) {
      go(LEADS[key]);
      return true;
    }
    switch (key) {
      case "g":
        this.led = Date.now();
        return true;
      case "/":
        return this.field();
      case "?":
        this.help();
        return true;
      case "j":
        return this.move(1);
      case "k":
        return this.move(-1);
      case "l":
        this.actions.toggleLive();
        return true;
      case "d":
        this.actions.toggleTheme();
        return true;
      case "Escape":
        return this.up();
      default:
        return this.actions.view()?.key?.(key) ?? false;
    }
  }

  field() {
    const field = document.querySelector("#main [data-field]");
    if (!field) {
      go("search");
      return true;
    }
    field.focus();
    field.select();
    return true;
  }

  move(step, first = false) {
    const rows = [...document.querySelectorAll("#main [data-row]")].filter((row) => row.offsetParent !== null);
    if (!rows.length) return false;
    const now = rows.indexOf(document.activeElement?.closest("[data-row]"));
    const next = first || now < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, now + step));
    rows[next].focus();
    rows[next].scrollIntoView({ block: "nearest" });
    return true;
  }

  up() {
    if (this.actions.view()?.key?.("Escape")) return true;
    const row = document.activeElement?.closest?.("[data-row]");
    if (row) {
      row.blur();
      return true;
    }
    const crumb = document.querySelector("#main [data-up]");
    if (crumb) location.hash = crumb.getAttribute("href");
    return Boolean(crumb);
  }

  help() {
    if (!this.dialog) {
      const close = h("button.ghost", { type: "button", "aria-label": "Close", on: { click: () => this.dialog.close() } }, icon("close"));
      this.dialog = h("dialog.help", { "aria-labelledby": "help-title" },
        h("div.help-head", {}, h("h2", { id: "help-title" }, "Keyboard"), close),
        h("div.help-body", {}, HELP.map(([title, keys]) => h("section", {}, h("h3", {}, title),
          h("dl", {}, keys.map(([pressed, text]) => h("div", {}, h("dt", {}, pressed.map((key) => h("kbd", {}, key))), h("dd", {}, text))))))));
      this.dialog.addEventListener("click", (event) => {
        if (event.target === this.dialog) this.dialog.close();
      });
      document.body.append(this.dialog);
    }
    this.dialog.showModal();
  }
}

/** The theme that holds: the chosen one, or the system's. */
export function theme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** A button that changes between dark and light, and keeps the choice in this browser. */
export function themeButton() {
  const button = h("button.ghost", { type: "button" });
  const draw = () => {
    const dark = theme() === "dark";
    put(button, icon(dark ? "sun" : "moon"));
    button.setAttribute("aria-label", dark ? "Light theme" : "Dark theme");
    button.title = dark ? "Light theme (d)" : "Dark theme (d)";
  };
  const toggle = () => {
    const chosen = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    try {
      localStorage.setItem("memalchemy.theme", chosen);
    } catch {
      // Storage is blocked: the choice lives as long as the page.
    }
    draw();
  };
  button.addEventListener("click", toggle);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  return { button, toggle };
}
