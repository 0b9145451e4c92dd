// All that is known of a person, and the commands that erase it.

import { get } from "../api.js";
import { commandLine, commandMenu, databaseIsKnown, namespaceWord, saveFile } from "../commands.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { number, plural, time } from "../format.js";
import { copyButton, during, empty, facts, namespacePath, searchField } from "../parts.js";
import { href, replace } from "../router.js";
import { threadRow } from "./threads.js";

const KINDS = { fact: "Facts", episode: "Episodes", memory: "Long-term memories", document: "Documents", item: "Items" };

export function person({ root, parameters, signal, title }) {
  let name = parameters.get("name") ?? "";
  const place = h("div.about-person");
  let shown = null;
  let asked = new AbortController();
  signal.addEventListener("abort", () => asked.abort());

  put(root,
    h("nav.crumbs", { "aria-label": "Where this is" }, h("a", { href: href("memories"), data: { up: "" } }, "Memories")),
    h("div.view-head", {}, h("div.titles", {}, h("h1", {}, "A person"), h("p.counts.muted", {}, "What is named after somebody, or has the name in its metadata")),
      searchField({
        label: "Name or id of a person", value: name, placeholder: "Name or id, whole…",
        onInput: (text) => {
          name = text.trim();
          replace("person", { name: name || null });
          draw();
        },
      }), commandMenu({
        files: () => [["Everything shown as JSON", () => saveFile(`${name || "person"}.json`, JSON.stringify(shown, null, 2))]],
      })), place);

  async function draw() {
    asked.abort();
    asked = new AbortController();
    title(name ? `${name.slice(0, 60)} · Person` : "Person");
    if (!name) {
      put(place, empty("user", "Whose?", "Type a name or an id, such as that of metadata’s user_id."));
      return;
    }
    await during(place, asked.signal, async () => {
      const [got] = await Promise.all([get("person", { name }, asked.signal), databaseIsKnown()]);
      shown = got;
      const items = [...got.namespaces.flatMap((one) => one.shown), ...got.items];
      const count = got.namespaces.reduce((sum, one) => sum + one.items, 0) + got.items.length;
      if (!count && !got.threads.length) return [empty("search", "Nothing is known", "The name has to be whole, as it stands in a namespace, an id or metadata."), notes(got)];
      return [
        facts([["Threads", number(got.threads.length)], ["Namespaces", number(got.namespaces.length + got.more_namespaces)], ["Items", number(count)]]),
        erase(got),
        Object.entries(KINDS).map(([kind, text]) => section(text, items.filter((one) => one.kind === kind))),
        got.threads.length ? h("section", { "aria-labelledby": "person-threads" }, h("h2.section-title", { id: "person-threads" }, "Threads"),
          h("div.table.thread-table", {}, h("ul.list", { "aria-labelledby": "person-threads" }, got.threads.map(threadRow)))) : null,
        notes(got),
      ];
    }, { rows: 6 });
  }

  draw();
  if (!name) setTimeout(() => root.querySelector("[data-field]")?.focus({ preventScroll: true }), 0);
}

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
  const named = got.threads.filter((one) => one.by === "name" || !got.keys.includes(one.by));
  const lines = [
    ...got.keys.map((key) => commandLine("forget", "--metadata", `${key}=${got.name}`)),
    ...got.namespaces.map((one) => commandLine("forget", "--namespace", namespaceWord(one.namespace))),
    ...[...new Set(named.map((one) => one.thread_id))].map((id) => commandLine("forget", "--thread", id)),
  ].slice(0, 40);
  if (!lines.length) return null;
  const all = lines.join("\n");
  return h("section.card.erase", { "aria-labelledby": "erase-title" },
    h("div.card-head", {}, icon("warning"), h("h2", { id: "erase-title" }, lines.length === 1 ? "The command that erases this" : `The ${plural(lines.length, "command")} that erase this`), h("span.spacer"), h("span.muted", {}, "each says how much it is, and asks"), copyButton(all, "Copy the commands")),
    h("pre.text-block.erase-lines", { tabindex: 0 }, visible(all)));
}

function notes(got) {
  const said = [];
  if (!got.all_namespaces) said.push("The first 5,000 namespaces of the store were looked through.");
  if (got.window) said.push(`Threads were looked for in all ids, and in the metadata of the ${number(got.window)} written last: the commands with --metadata reach the others, too.`);
  return said.length ? h("p.list-note.muted", {}, said.join(" ")) : null;
}
