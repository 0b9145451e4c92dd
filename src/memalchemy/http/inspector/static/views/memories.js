// Facts, episodes, conversations and long-term memories, as what they are.

import { get } from "../api.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { number, plural, time } from "../format.js";
import { choices, empty, pagedList, searchField } from "../parts.js";
import { href, replace } from "../router.js";
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

  const make = () => pagedList({
    signal, label: KINDS.find(([name]) => name === kind)[1], kind: "card", rows: 4,
    key: (row) => JSON.stringify([row.namespace, row.key ?? row.thread_id ?? row.id, row.user]),
    load: async (cursor) => {
      const got = await get("memories", { kind, user, cursor, limit: 50 }, signal);
      return { rows: got.memories ?? got[kind] ?? got.items ?? [], next: got.next };
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
    replace("memories", { kind: kind === "facts" ? null : kind, user });
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
      })),
    h("div.chips", {}, choices("Kind", KINDS.map(([value, text]) => ({ value, text })), kind, (value) => {
      kind = value;
      changed();
    })),
    place);
  changed();
  listen(() => list.renew());
}

const CARDS = { facts: fact, episodes: episode, conversations: conversation, "long-term": longTerm };

const itemLink = (row) => (row.key === undefined || row.key === null ? null : href("item", { ns: row.namespace ?? [], key: row.key }));
const threadLink = (row) => (row.thread_id ? href("thread", { thread: row.thread_id, ns: row.namespace ?? [] }) : null);

function card(row, link, head, body, foot) {
  const to = link ?? itemLink(row) ?? threadLink(row);
  return h(to ? "a.card.memory" : "div.card.memory", { href: to, data: { row: "" } }, h("div.memory-head", {}, head), body, h("div.memory-foot", {}, foot));
}

const who = (row) => {
  const name = row.user ?? row.user_id ?? row.subject;
  return name ? h("span.person", {}, icon("user"), code(name, 40)) : null;
};
const text = (value) => visible(String(value ?? "").slice(0, 2000));

function fact(row) {
  return card(row, null, [who(row), row.category ? h("span.badge", {}, text(row.category)) : null], h("p.memory-text", {}, text(row.text ?? row.fact ?? row.content)),
    [row.confidence === null || row.confidence === undefined ? null : h("span.labelled", {}, "confidence ", score(row.confidence)),
      row.source ? h("span.muted", {}, "from ", text(row.source)) : null, h("span.spacer"), time(row.updated_at ?? row.created_at)]);
}

function episode(row) {
  const outcome = String(row.outcome ?? row.result ?? "");
  const good = row.success ?? (/^(success|ok|done|solved)/i.test(outcome) ? true : /^(fail|error|abort)/i.test(outcome) ? false : null);
  const lines = [["Plan", row.plan], ["Did", row.actions ?? row.steps], ["Outcome", outcome], ["Learned", row.lesson ?? row.lessons ?? row.reflection]]
    .filter(([, value]) => value && (!Array.isArray(value) || value.length));
  return card(row, null, [who(row), good === null ? null : h("span.badge", { class: good ? "good" : "bad" }, good ? "success" : "failure")],
    [h("p.memory-text.strong", {}, text(row.goal ?? row.task ?? row.text)),
      h("dl.facts.column", {}, lines.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, text(Array.isArray(value) ? value.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(" · ") : value)))))],
    [row.score === null || row.score === undefined ? null : h("span.labelled", {}, "score ", score(row.score)), (row.tags ?? []).slice(0, 8).map((tag) => h("span.badge", {}, text(tag))), h("span.spacer"),
      time(row.occurred_at ?? row.updated_at ?? row.created_at)]);
}

function conversation(row) {
  return card(row, threadLink(row), [icon("threads"), code(row.thread_id ?? row.key, 60), who(row)],
    row.summary ? h("p.memory-text", {}, text(row.summary)) : h("p.muted", {}, "No summary."),
    [h("span.muted", {}, plural(row.messages ?? row.count ?? 0, "message")), h("span.spacer"), time(row.updated_at)]);
}

function longTerm(row) {
  return card(row, null, [who(row), row.kind ? h("span.badge", {}, text(row.kind)) : null], h("p.memory-text", {}, text(row.text ?? row.content ?? row.preview)),
    [row.importance === null || row.importance === undefined ? null : h("span.labelled", {}, "importance ", score(row.importance)),
      row.hits ? h("span.muted", {}, `${number(row.hits)} hits`) : null, h("span.spacer"), time(row.updated_at ?? row.created_at)]);
}

const other = (row) => card(row, null, [code(row.key ?? "", 60)], h("p.memory-text", {}, text(row.preview ?? JSON.stringify(row))), [h("span.spacer"), time(row.updated_at)]);
