// A value as a tree that opens on demand.

import { h, put, visible, uniqueId } from "./dom.js";
import { icon } from "./icons.js";
import { number, full, bytes as size } from "./format.js";
import { failure, copyButton } from "./parts.js";

const HOLDS = new Set(["dict", "list", "tuple", "set", "frozenset", "model", "object"]);
const BRACKETS = { dict: "{}", list: "[]", tuple: "()", set: "{}", frozenset: "{}" };
const KEYED = new Set(["dict", "model", "object"]);
const LONG = 140;

const escaped = (key) => String(key).replaceAll("~", "~0").replaceAll("/", "~1");
export const join = (path, key) => `${path}/${escaped(key)}`;

const holds = (node) => HOLDS.has(node.type) || Array.isArray(node.children) || (node.more && node.text === undefined);

/**
 * Draw a node and what is below it.
 *
 * `load(path, offset)` returns the node of a path, for children and texts that were cut; without
 * it what was cut is named. `open` is how many levels are open at first.
 */
export function tree(node, { load = null, path = "", open = 1, label = "Value" } = {}) {
  if (!holds(node)) return h("div.tree", { role: "group", "aria-label": label }, leaf(node, path, load, true));
  return h("div.tree", { role: "group", "aria-label": label }, children(node, path, load, open));
}

function children(node, path, load, open) {
  const list = h("ul.nodes");
  const given = node.children ?? [];
  if (!given.length && !node.length) {
    list.append(h("li.node", {}, h("span.node-row.leaf", {}, h("span.muted", {}, `empty ${node.type}`))));
    return list;
  }
  list.append(...given.map((child) => branch(child.key, child.node, join(path, child.key), load, open - 1, node.type)));
  rest(list, node, path, load, given.length);
  return list;
}

function rest(list, node, path, load, shown) {
  const total = node.length ?? shown;
  if (!node.more && total <= shown) return;
  const left = total - shown;
  const row = h("li.node.node-more");
  if (!load) {
    put(row, h("span.muted", {}, `… ${number(left)} more`));
  } else {
    const button = h("button.button.small", { type: "button" },
      left > 0 ? `Show ${number(Math.min(100, left))} of ${number(left)} more` : "Show more");
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const got = await load(path, shown);
        const more = got.children ?? [];
        row.replaceWith(...more.map((child) => branch(child.key, child.node, join(path, child.key), load, 0, node.type)));
        if (more.length) rest(list, { ...node, more: got.more, length: got.length ?? node.length }, path, load, shown + more.length);
      } catch (error) {
        if (error.name !== "AbortError") put(row, failure(error));
      }
    });
    put(row, button);
  }
  list.append(row);
}

function branch(key, node, path, load, open, parent) {
  const name = h(`span.key${KEYED.has(parent) ? "" : ".index"}`, {}, visible(clip(key, 200)));
  if (!holds(node) || (!node.length && !node.more && !(node.children ?? []).length)) {
    return h("li.node", {}, h("div.node-row.leaf", {}, name, h("span.colon", {}, ":"), leaf(node, path, load)));
  }
  const id = uniqueId("node");
  const below = h("div.node-below", { id, hidden: true });
  const button = h("button.node-row.toggle", { type: "button", "aria-expanded": "false", "aria-controls": id },
    icon("chevron"), name, h("span.colon", {}, ":"), summary(node));
  let filled = false;
  const show = async (yes) => {
    button.setAttribute("aria-expanded", String(yes));
    below.hidden = !yes;
    if (!yes || filled) return;
    filled = true;
    if ((node.children ?? []).length || !load) {
      put(below, children(node, path, load, open));
      return;
    }
    below.setAttribute("aria-busy", "true");
    put(below, h("div.bone.w2", { "aria-hidden": "true" }));
    try {
      put(below, children(await load(path, 0), path, load, 1));
    } catch (error) {
      filled = false;
      if (error.name !== "AbortError") put(below, failure(error));
    }
    below.removeAttribute("aria-busy");
  };
  button.addEventListener("click", () => show(below.hidden));
  button.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight" && below.hidden) show(true);
    else if (event.key === "ArrowLeft" && !below.hidden) show(false);
    else return;
    event.preventDefault();
  });
  if (open > 0) show(true);
  return h("li.node", {}, h("div.node-line", {}, button, copyButton(path, "Copy the path")), below);
}

const clip = (text, most) => (String(text).length > most ? `${String(text).slice(0, most)}…` : String(text));

/** What stands beside a closed branch: its type, its length, and its first keys. */
function summary(node) {
  const [left, right] = BRACKETS[node.type] ?? "{}";
  const keys = (node.children ?? []).slice(0, 4).map((child) => inline(child, node.type));
  const more = (node.length ?? 0) > 4 ? ", …" : "";
  return [
    h("span.type", {}, `${className(node) ?? node.type} ${number(node.length ?? 0)}`),
    keys.length ? h("span.preview", {}, left, visible(clip(keys.join(", "), 110)), more, right) : null,
  ];
}

/** The last part of a class's name, or undefined. */
const className = (node) => node.class?.split(".").at(-1);

function inline({ key, node }, parent) {
  const value = holds(node) ? (BRACKETS[node.type] ?? "{}").split("").join("…") : clip(plain(node), 24);
  return KEYED.has(parent) ? `${clip(key, 24)}: ${value}` : value;
}

/** A scalar as one line of text. */
export function plain(node) {
  if (!node) return "";
  if (node.type === "string" || node.type === "str") return JSON.stringify(node.text ?? node.value ?? "");
  if (node.type === "null" || node.type === "none") return "null";
  if (node.type === "bytes") return `${number(node.length ?? 0)} bytes`;
  if (holds(node)) return `${node.type} of ${number(node.length ?? 0)}`;
  return String(node.value ?? node.text ?? "");
}

function leaf(node, path, load, alone = false) {
  const type = node.type;
  if (type === "string" || type === "str") return string(node, path, load, alone);
  if (type === "null" || type === "none") return h("span.value.v-null", {}, "null");
  if (type === "bool") return h("span.value.v-bool", {}, String(node.value));
  if (type === "number" || type === "int" || type === "float") return h("span.value.v-number", {}, visible(String(node.value ?? node.text)));
  if (type === "bytes") {
    return h("span.value.v-bytes", {}, visible(String(node.value ?? node.text ?? "")), h("span.type", {}, `bytes ${size(node.length ?? 0)}`));
  }
  if (holds(node)) return h("span.muted", {}, `${(BRACKETS[type] ?? "{}")} `, h("span.type", {}, `empty ${type}`));
  const text = String(node.value ?? node.text ?? "");
  return h("span.value", {}, type === "datetime" ? h("time", { datetime: text, title: full(text) }, visible(text)) : visible(text),
    h("span.type", {}, type));
}

function string(node, path, load, alone) {
  const text = String(node.text ?? node.value ?? "");
  const length = node.length ?? text.length;
  const cut = node.cut || length > text.length;
  const long = text.length > LONG || text.includes("\n");
  const value = h("span.value.v-string", {}, visible(long && !alone ? clip(text.replace(/\n/g, "⏎"), LONG) : text));
  if (!long && !cut) return value;
  const place = h("span.string", {}, value);
  const type = h("span.type", {}, `string ${number(length)}`);
  if (!long || alone) {
    place.append(type);
    if (cut) more(place, text.length, length, path, load);
    return place;
  }
  const block = h("pre.text-block", { hidden: true, id: uniqueId("text") });
  const button = h("button.button.small", { type: "button", "aria-expanded": "false", "aria-controls": block.id }, "Whole text");
  button.addEventListener("click", () => {
    block.hidden = !block.hidden;
    value.hidden = !block.hidden;
    button.setAttribute("aria-expanded", String(!block.hidden));
    button.textContent = block.hidden ? "Whole text" : "Fold";
    if (!block.childNodes.length) {
      put(block, visible(text));
      if (cut) more(block, text.length, length, path, load);
    }
  });
  place.append(type, button, block);
  return place;
}

const MOST = 400000;

/** Below the first part of a text, a button that brings the next. */
function more(place, shown, length, path, load) {
  const line = h("div.cut", {}, `The first ${number(shown)} of ${number(length)} characters. `);
  place.append(line);
  if (!load || shown >= MOST) return;
  const button = h("button.button.small", { type: "button" }, "Show more");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const got = await load(path, shown);
      const text = String(got.text ?? "");
      line.replaceWith(...visible(text));
      if (text && shown + text.length < length) more(place, shown + text.length, length, path, load);
    } catch (error) {
      if (error.name !== "AbortError") put(line, failure(error));
    }
  });
  line.append(button);
}

/** Plain JSON as a node. */
export function nodeOf(value, depth = 6) {
  if (value === null || value === undefined) return { type: "null", value: null };
  if (typeof value === "boolean") return { type: "bool", value };
  if (typeof value === "number") return { type: "number", value };
  if (typeof value === "string") return { type: "string", text: value.slice(0, 20000), length: value.length, cut: value.length > 20000 };
  const all = Object.entries(value);
  const children = depth > 0 ? all.slice(0, 100).map(([key, one]) => ({ key, node: nodeOf(one, depth - 1) })) : [];
  return { type: Array.isArray(value) ? "list" : "dict", length: all.length, children, more: children.length < all.length };
}
