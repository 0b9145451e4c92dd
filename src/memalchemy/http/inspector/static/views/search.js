// One search over steps, entries and items.

import { get } from "../api.js";
import { commandLine, commandMenu, saveFile } from "../commands.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { number, time } from "../format.js";
import { announce, choices, empty, failure, namespacePath, searchField, skeleton, tickAllWords } from "../parts.js";
import { href, replace } from "../router.js";
import { score } from "./store.js";

const KINDS = [["step", "Steps", "branch"], ["entry", "Entries", "threads"], ["item", "Items", "item"]];

export function search({ root, parameters, signal, title }) {
  let q = parameters.get("q") ?? "";
  let all = parameters.get("match") === "all";
  let kind = parameters.get("kind");
  let hits = [];
  let asked = new AbortController();
  title("Search");

  const place = h("div.hits-place");
  const filter = h("div.chips");

  put(root,
    h("div.view-head.column", {}, h("h1", {}, "Search"),
      searchField({
        label: "Search everything", value: q, wide: true, placeholder: "Words in messages, states and items…",
        onInput: (text) => {
          q = text;
          run();
        },
      }),
      h("div.ticks", {}, tickAllWords(all, (yes) => {
        all = yes;
        run();
      }), h("span.spacer"), commandMenu({
        commands: () => (q.trim() ? [["The search", commandLine("search", all ? ["--match", "all"] : [], "--limit", "50", "--", q)]] : [["Any search", commandLine("search", "WORDS")]]),
        files: () => [["The hits as JSON", () => saveFile("hits.json", JSON.stringify(hits, null, 2))]],
      }))),
    filter, place);

  const address = () => ({ q: q || null, match: all ? "all" : null, kind });

  async function run() {
    asked.abort();
    asked = new AbortController();
    const mine = asked;
    replace("search", address());
    title(q ? `“${q.slice(0, 60)}” · Search` : "Search");
    if (!q.trim()) {
      put(filter);
      put(place, empty("search", "One search for everything", "Steps' states, entries of logs, and items of the store, best first."));
      return;
    }
    if (!hits.length) put(place, skeleton(6, "card"));
    place.setAttribute("aria-busy", "true");
    try {
      const got = await get("search", { q, match: all ? "all" : null, limit: 50 }, mine.signal);
      if (signal.aborted || mine.signal.aborted) return;
      hits = got.hits;
      draw();
      announce(hits.length ? `${hits.length} hits` : "No hits");
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      hits = [];
      put(filter);
      put(place, failure(error, run));
    } finally {
      if (mine === asked) place.removeAttribute("aria-busy");
    }
  }

  function draw() {
    if (!hits.length) {
      put(filter);
      put(place, empty("search", "No hits", "Try fewer words, or any of them, or the beginning of one. Encrypted databases keep no text to search unless they are told to."));
      return;
    }
    const count = (name) => hits.filter((hit) => hit.kind === name).length;
    put(filter, choices("Kind", [{ value: null, text: "All", count: number(hits.length) },
      ...KINDS.filter(([name]) => count(name) || name === kind).map(([value, text]) => ({ value, text, count: number(count(value)) }))], kind, (value) => {
      kind = value;
      replace("search", address());
      list();
    }));
    list();
  }

  function list() {
    const chosen = hits.filter((hit) => !kind || hit.kind === kind);
    put(place, chosen.length ? h("ol.hits", { "aria-label": "Hits, best first" }, chosen.map((hit) => hitRow(hit, q))) : empty("search", "No hit of this kind"));
  }

  signal.addEventListener("abort", () => asked.abort());
  run();
  if (!q) setTimeout(() => root.querySelector("[data-field]")?.focus({ preventScroll: true }), 0);
}

function target(hit, q) {
  if (hit.kind === "item") return href("item", { ns: hit.namespace, key: hit.key });
  return href("thread", { thread: hit.thread_id, ns: hit.namespace, at: hit.checkpoint_id, around: hit.position, find: q });
}

function hitRow(hit, q) {
  const [, , drawn] = KINDS.find(([name]) => name === hit.kind) ?? ["", "", "item"];
  return h("li", {}, h("a.hit", { href: target(hit, q), data: { row: "", kind: hit.kind } },
    h("span.hit-head", {}, h("span.badge.kind", {}, icon(drawn), hit.kind),
      h("span.hit-where", {}, code(hit.kind === "item" ? hit.key : hit.thread_id, 56), hit.namespace?.length ? h("span.muted", {}, namespacePath(hit.namespace)) : null),
      h("span.spacer"), score(hit.score)),
    h("span.snippet", {}, (hit.snippet ?? []).map((part) => (part.hit ? h("mark", {}, visible(part.text)) : visible(part.text)))),
    h("span.hit-foot", {}, hit.kind === "step" ? code(hit.checkpoint_id, 24) : null, hit.kind === "entry" ? h("span", {}, `entry ${number(hit.position)}`) : null, time(hit.occurred_at))));
}
