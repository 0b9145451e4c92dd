// Facts, episodes, conversations and long-term memories, as what they are.

import { get } from "../api.js";
import { commandLine, commandMenu, saveFile } from "../commands.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { plural, time } from "../format.js";
import { choices, empty, namespacePath, pagedList, searchField } from "../parts.js";
import { href, replace } from "../router.js";
import { plain } from "../tree.js";
import { score } from "./store.js";

const KINDS = [
  ["facts", "Facts", "Facts about users appear here when an agent learns them."],
  ["episodes", "Episodes", "An episode is one task with its goal and its outcome."],
  ["conversations", "Conversations", "Conversations appear here with their first message."],
  ["long-term", "Long-term", "Long-term memories appear here when a manager keeps them."],
];

export function memories({ root, parameters, signal, title, listen }) {
  let kind = KINDS.some(([name]) => name === parameters.get("kind")) ? parameters.get("kind") : "facts";
  let user = parameters.get("user") ?? "";
  let shown = [];

  const make = () => pagedList({
    signal, label: KINDS.find(([name]) => name === kind)[1], kind: "card", rows: 4,
    key: (row) => JSON.stringify([row.namespace, row.key ?? row.thread_id]),
    load: async (cursor) => {
      const got = await get("memories", { kind, user: kind === "conversations" ? null : user || null, cursor, limit: 50 }, signal);
      shown = cursor === null ? got.memories : [...shown, ...got.memories];
      return { rows: got.memories, next: got.next };
    },
    draw: (row) => h("li", {}, (CARDS[kind] ?? other)(row)),
    nothing: () => (user
      ? empty("search", "Nothing about this user", "The user's id has to be whole.")
      : empty("memories", `No ${KINDS.find(([name]) => name === kind)[1].toLowerCase()} yet`, KINDS.find(([name]) => name === kind)[2])),
  });

  let list = make();
  const place = h("div.cards");

  function changed() {
    title(`${KINDS.find(([name]) => name === kind)[1]} · Memories`);
    replace("memories", { kind: kind === "facts" ? null : kind, user: user || null });
    list = make();
    put(place, list.element);
    list.start();
  }

  put(root,
    h("div.view-head", {}, h("div.titles", {}, h("h1", {}, "Memories")),
      searchField({
        label: "Filter by user", value: user, placeholder: "User…",
        onInput: (text) => {
          user = text;
          changed();
        },
      }), commandMenu({
        commands: () => [["The items", commandLine("store", "ls", "/", "--prefix", "--newest")]],
        files: () => [["The memories below as JSON", () => saveFile(`${kind}.json`, JSON.stringify(shown, null, 2))]],
      })),
    h("div.chips", {}, choices("Kind", KINDS.map(([value, text]) => ({ value, text })), kind, (value) => {
      kind = value;
      changed();
    })),
    h("p.list-note", {}, h("a", { href: href("person") }, icon("user"), "All that is known of a person, an agent, a namespace, and how to erase it")),
    place);
  changed();
  listen(() => list.renew(), () => (kind === "conversations" ? null : { ns: [], below: true }));
}

const CARDS = { facts: fact, episodes: episode, conversations: conversation, "long-term": longTerm };

const itemLink = (row) => (row.key === undefined || row.key === null ? null : href("item", { ns: row.namespace ?? [], key: row.key }));
const threadLink = (row) => (row.thread_id !== undefined && row.thread_id !== null ? href("thread", { thread: row.thread_id, ns: row.namespace ?? [] }) : null);

function card(row, link, head, body, foot) {
  const to = link ?? itemLink(row) ?? threadLink(row);
  return h(to ? "a.card.memory" : "div.card.memory", { href: to, data: { row: "" } }, h("div.memory-head", {}, head), body, h("div.memory-foot", {}, foot));
}

const who = (row) => {
  return row.user ? h("span.person", {}, icon("user"), code(row.user, 40)) : null;
};

/** The first pairs of a tree of metadata. */
const brief = (node, most) => (node?.children ?? []).slice(0, most).map(({ key, node: value }) =>
  h("span.pair", {}, text(key.slice(0, 30)), ": ", text(plain(value).replace(/^"|"$/g, "").slice(0, 60))));

const text = (value) => visible(String(value ?? "").slice(0, 2000));

const topics = (row) => (row.topics ?? []).slice(0, 8).map((topic) => h("span.badge", {}, text(topic.slice(0, 60))));

function fact(row) {
  return card(row, null, [who(row)], h("p.memory-text", {}, text(row.text)),
    [row.confidence === null || row.confidence === undefined ? null : h("span.labelled", {}, "confidence ", score(row.confidence)), topics(row), h("span.spacer"), time(row.last_seen_at ?? row.updated_at)]);
}

function episode(row) {
  const failed = Boolean(row.error);
  const lines = [["Result", row.result], ["Error", row.error], ["Did", row.rollout]].filter(([, value]) => value);
  return card(row, null, [h("span.badge", { class: failed ? "bad" : "good" }, failed ? "failed" : "done"), h("span.person", {}, namespacePath(row.namespace))],
    [h("p.memory-text.strong", {}, text(row.task ?? row.text)),
      lines.length ? h("dl.facts.column", {}, lines.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, text(value))))) : null],
    [brief(row.metadata, 2), h("span.spacer"), time(row.completed_at ?? row.updated_at)]);
}

function conversation(row) {
  return card(row, threadLink(row), [icon("threads"), code(row.thread_id ?? row.key, 60), who(row)],
    row.summary ? h("p.memory-text", {}, text(row.summary)) : h("p.muted", {}, "No summary."),
    [h("span.muted", {}, plural(row.messages ?? 0, "message")), h("span.spacer"), time(row.updated_at)]);
}

function longTerm(row) {
  return card(row, null, [row.type && row.type !== "None" ? h("span.badge", {}, text(row.type)) : null, h("span.person", {}, namespacePath(row.namespace))],
    h("p.memory-text", {}, text(row.text)), [brief(row.metadata, 2), h("span.spacer"), time(row.updated_at)]);
}

const other = (row) => card(row, null, [code(row.key ?? "", 60)], h("p.memory-text", {}, text(row.preview ?? JSON.stringify(row))), [h("span.spacer"), time(row.updated_at)]);
