// What a view shows as a command of the terminal, and as a file.

import { h, put, visible } from "./dom.js";
import { icon } from "./icons.js";
import { copyButton, announce } from "./parts.js";

let database = { url: "", tenant: "default" };
let tell = null;
const known = new Promise((resolve) => {
  tell = resolve;
});
const PATIENCE = 2000;

/** Remember which database this is, for the commands. */
export function describeDatabase(overview) {
  database = { url: overview.database, tenant: overview.tenant };
  tell();
}

/** Wait, for a while, until it is known which database this is. */
export const databaseIsKnown = () => Promise.race([known, new Promise((resolve) => { setTimeout(resolve, PATIENCE); })]);

/** Return a word as a POSIX shell reads it. */
export function quoted(word) {
  const text = String(word);
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text;
  // A control character could be taken for a key by the terminal that it is pasted into.
  if (/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(text)) {
    const spelt = [...text].map((one) => (/[A-Za-z0-9_@%+=:,./ -]/.test(one) ? one : [...new TextEncoder().encode(one)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")));
    return `$'${spelt.join("")}'`;
  }
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Return a namespace as the command line writes it. */
export function namespaceWord(parts) {
  const path = parts.map((part) => part.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");
  return !parts.length || !parts[0] || !parts.at(-1) ? `/${path}${parts.length ? "/" : ""}` : path;
}

/** Return the parts of a namespace that is written so. */
export function namespaceParts(path) {
  const inner = path.startsWith("/") ? path.slice(1).replace(/\/$/, "") : path;
  return inner ? inner.split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")) : [];
}

/**
 * Return a command line of memalchemy for this database; null is left out, `["--name", value]` are options.
 *
 * It is empty if a word is: the command line takes no empty id, which only programs can write.
 */
export function commandLine(...words) {
  const given = ["memalchemy", "--db", database.url || "URL", ...(database.tenant && database.tenant !== "default" ? ["--tenant", database.tenant] : []), ...words.flat()];
  const present = given.filter((word) => word !== null && word !== undefined);
  return present.includes("") ? "" : present.map(quoted).join(" ");
}

/** Options that name a thread's log. A thread's id that begins with a dash stands behind "--". */
export const ofThread = (thread, ns) => [...(ns.length ? ["--namespace", namespaceWord(ns)] : []), ...(thread.startsWith("-") ? ["--"] : []), thread];

/**
 * A button that opens a list of commands, each with a button that copies it, and of files to save.
 *
 * `commands()` returns pairs of a text and a command line, `files()` pairs of a text and a function that
 * saves a file.
 */
export function commandMenu({ commands = () => [], files = () => [] }) {
  const panel = h("div.menu-panel", { hidden: true });
  const button = h("button.button.menu-button", { type: "button", "aria-expanded": "false" }, icon("terminal"), h("span", {}, "Command, export"));
  const menu = h("div.menu", {}, button, panel);
  const close = () => {
    panel.hidden = true;
    button.setAttribute("aria-expanded", "false");
  };
  const outside = (event) => {
    if (!menu.isConnected) document.removeEventListener("pointerdown", outside);
    else if (!menu.contains(event.target)) close();
  };
  button.addEventListener("click", async () => {
    if (!panel.hidden) {
      close();
      return;
    }
    await databaseIsKnown();
    put(panel,
      commands().filter(([, line]) => line).map(([text, line]) => h("div.menu-row", {}, h("span.menu-text", {}, text), h("code.menu-code", {}, visible(line)), copyButton(line, `Copy the command: ${text}`))),
      files().map(([text, save]) => {
        const one = h("button.button.small", { type: "button" }, icon("down"), text);
        one.addEventListener("click", async () => {
          one.disabled = true;
          try {
            await save();
            announce("Saved");
          } catch (error) {
            if (error.name !== "AbortError") announce(error.title ?? "The file could not be made");
          }
          one.disabled = false;
        });
        return one;
      }));
    panel.hidden = false;
    button.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside);
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) {
      close();
      button.focus();
      event.preventDefault();
      event.stopPropagation();
    }
  });
  return menu;
}

/** Save a text as a file. */
export function saveFile(name, text, type = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 120) });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Return rows, objects, as CSV. */
export const csv = (rows, columns) => csvOf(columns, rows.map((row) => columns.map((name) => row[name])));

/** Return rows, lists of values, as CSV. What a spreadsheet would take for a formula begins with an apostrophe. */
export function csvOf(columns, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll("\"", "\"\"")}"` : safe;
  };
  return `${[columns, ...rows].map((line) => line.map(cell).join(",")).join("\r\n")}\r\n`;
}
