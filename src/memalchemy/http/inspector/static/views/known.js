// All that is known of a person or of a scope, and the commands that erase it.

import { get } from "../api.js";
import { commandLine, commandMenu, databaseIsKnown, namespaceParts, namespaceWord, saveFile } from "../commands.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { number, plural, time } from "../format.js";
import { choices, copyButton, during, empty, facts, namespacePath, searchField } from "../parts.js";
import { go, href, replace } from "../router.js";
import { threadRow } from "./threads.js";

const KINDS = { fact: "Facts", episode: "Episodes", memory: "Long-term memories", document: "Documents", item: "Items" };

/** Who or what a page is about: how it is asked for, and what commands know of it. */
const SUBJECTS = {
  person: {
    text: "Person", title: "A person", about: "What is named after somebody, or has the name in its metadata", drawn: "user",
    label: "Name or id of a person", placeholder: "Name or id, whole…", none: "Type a name or an id, such as that of metadata’s user_id.",
    asked: (name) => ({ name }), commands: (name) => [["What would be erased", commandLine("forget", "--person", name, "--dry-run")]],
  },
  agent: {
    text: "Agent", title: "An agent", about: "What is named after an agent, or has its name in its metadata", drawn: "assistant",
    label: "Name of an agent", placeholder: "Name, whole…", none: "Type a name, such as that of metadata’s agent.",
    asked: (name) => ({ agent: name }), commands: (name) => [["Its usage", commandLine("usage", "--metadata", `agent=${name}`)], ["Its messages", commandLine("messages", "--metadata", `agent=${name}`)]],
  },
  metadata: {
    text: "Metadata", title: "A pair of metadata", about: "Threads and items that have it in their metadata", drawn: "target",
    label: "Metadata, as key=value", placeholder: "customer=42", none: "Type a key and its value, such as customer=42.",
    asked: (pair) => (pair.indexOf("=") > 0 ? { metadata: pair } : null), commands: (pair) => [["Its messages", commandLine("messages", "--metadata", pair)]],
  },
  namespace: {
    text: "Namespace", title: "A namespace", about: "Items and threads in a namespace, and in those below it", drawn: "store",
    label: "Namespace", placeholder: "users/ada", none: "Type a namespace as commands write it, such as users/ada.",
    asked: (path) => ({ ns: namespaceParts(path) }),
    commands: (path) => [["Its items", commandLine("store", "ls", path, "--prefix", "--newest")], ["Its threads", commandLine("threads", "--namespace", path, "--prefix")]],
  },
};

/** The page of a person: `#/person?name=…`. */
export const person = (view) => known(view, "person", view.parameters.get("name") ?? "");

/** The page of a scope: `#/scope?agent=…`, `#/scope?metadata=key=value` or `#/scope?ns=…&ns=…`. */
export function scope(view) {
  const { parameters } = view;
  const ns = parameters.getAll("ns");
  if (ns.length) return known(view, "namespace", namespaceWord(ns));
  const kind = ["agent", "metadata"].find((one) => parameters.has(one)) ?? parameters.get("kind");
  return known(view, ["agent", "metadata", "namespace"].includes(kind) ? kind : "agent", parameters.get(kind) ?? "");
}

const viewOf = (kind) => (kind === "person" ? "person" : "scope");

function known({ root, signal, title }, kind, given) {
  const subject = SUBJECTS[kind];
  let name = given;
  let shown = null;
  let asked = new AbortController();
  signal.addEventListener("abort", () => asked.abort());
  const place = h("div.about-person");

  put(root,
    h("nav.crumbs", { "aria-label": "Where this is" }, h("a", { href: href("memories"), data: { up: "" } }, "Memories")),
    h("div.view-head", {}, h("div.titles", {}, h("h1", {}, subject.title), h("p.counts.muted", {}, subject.about)),
      searchField({
        label: subject.label, value: name, placeholder: subject.placeholder,
        onInput: (text) => {
          name = text.trim();
          replace(viewOf(kind), (name && subject.asked(name)) || { kind: kind === "person" ? null : kind });
          draw();
        },
      }), commandMenu({
        commands: () => (name ? subject.commands(name) : [["All threads", commandLine("threads")]]),
        files: () => (shown ? [["Everything shown as JSON", () => saveFile(`${name}.json`, JSON.stringify(shown, null, 2))]] : []),
      })),
    h("div.chips", {}, choices("About", Object.entries(SUBJECTS).map(([value, { text }]) => ({ value, text })), kind, (value) => go(viewOf(value), { kind: value === "person" ? null : value }))),
    place);

  async function draw() {
    asked.abort();
    asked = new AbortController();
    title(name ? `${name.slice(0, 60)} · ${subject.text}` : subject.text);
    const wanted = name && subject.asked(name);
    shown = null;
    if (!wanted) {
      put(place, empty(subject.drawn, kind === "person" ? "Whose?" : "Of what?", subject.none));
      return;
    }
    await during(place, asked.signal, async () => {
      const question = wanted.metadata ? { metadata: JSON.stringify(pairOf(wanted.metadata)) } : wanted;
      const [got] = await Promise.all([get(viewOf(kind), question, asked.signal), databaseIsKnown()]);
      shown = got;
      const items = [...got.namespaces.flatMap((one) => one.shown), ...got.items];
      const count = got.namespaces.reduce((sum, one) => sum + one.items, 0) + got.items.length;
      if (!count && !got.threads.length) return [empty("search", "Nothing is known", "It has to be whole, as it stands in a namespace, an id or metadata."), notes(got)];
      return [
        facts([["Threads", number(got.threads.length)], kind === "metadata" ? null : ["Namespaces", number(got.namespaces.length + got.more_namespaces)], ["Items", number(count)]]),
        erase(got),
        Object.entries(KINDS).map(([one, text]) => section(text, items.filter((item) => item.kind === one))),
        got.threads.length ? h("section", { "aria-labelledby": "person-threads" }, h("h2.section-title", { id: "person-threads" }, "Threads", h("span.count", {}, number(got.threads.length))),
          h("div.table.thread-table", {}, h("ul.list", { "aria-labelledby": "person-threads" }, got.threads.map(threadRow)))) : null,
        notes(got),
      ];
    }, { rows: 6 });
  }

  draw();
  if (!name) setTimeout(() => root.querySelector("[data-field]")?.focus({ preventScroll: true }), 0);
}

const pairOf = (pair) => ({ [pair.slice(0, pair.indexOf("="))]: pair.slice(pair.indexOf("=") + 1) });

function section(text, items) {
  if (!items.length) return null;
  const id = `person-${text.toLowerCase().replaceAll(" ", "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2.section-title", { id }, text, h("span.count", {}, number(items.length))),
    h("ul.known.card", {}, items.map((one) => h("li", {}, h("a.known-row", { href: href("item", { ns: one.namespace, key: one.key }), data: { row: "" } },
      h("span.known-text", {}, visible(String(one.text ?? "").slice(0, 400))),
      h("span.known-where.muted", {}, namespacePath(one.namespace), " ", code(one.key, 30), one.by ? h("span.badge", {}, visible(one.by)) : null, h("span.spacer"), time(one.updated_at)))))));
}

/** The commands that erase what is shown. Each asks before it does. */
function erase(got) {
  const lines = erasing(got).slice(0, 40);
  if (!lines.length) return null;
  const all = lines.join("\n");
  return h("section.card.erase", { "aria-labelledby": "erase-title" },
    h("div.card-head", {}, icon("warning"), h("h2", { id: "erase-title" }, lines.length === 1 ? "The command that erases this" : `The ${plural(lines.length, "command")} that erase this`), h("span.spacer"), h("span.muted", {}, lines.length === 1 ? "it says how much it is, and asks" : "each says how much it is, and asks"), copyButton(all, lines.length === 1 ? "Copy the command" : "Copy the commands")),
    h("pre.text-block.erase-lines", { tabindex: 0 }, visible(all)));
}

function erasing(got) {
  if (got.kind === "namespace") return [commandLine("forget", "--namespace", namespaceWord(got.namespace), got.threads.length ? "--threads" : null)];
  const named = got.threads.filter((one) => one.by === "name" || !got.keys.includes(one.by));
  return [
    ...got.keys.map((key) => commandLine("forget", "--metadata", `${key}=${got.name}`)),
    ...got.namespaces.map((one) => commandLine("forget", "--namespace", namespaceWord(one.namespace))),
    ...[...new Set(named.map((one) => one.thread_id))].map((id) => commandLine("forget", "--thread", id)),
  ];
}

function notes(got) {
  const said = [];
  if (!got.all_namespaces) said.push("The first 5,000 namespaces of the store were looked through.");
  if (got.window) said.push(got.kind === "namespace" ? `The ${number(got.window)} threads written last were looked through: the command reaches the others, too.` : `Threads were looked for in all ids, and in the metadata of the ${number(got.window)} written last: the commands with --metadata reach the others, too.`);
  return said.length ? h("p.list-note.muted", {}, said.join(" ")) : null;
}
