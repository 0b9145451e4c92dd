// The store: namespaces, their items, and one item.

import { get } from "../api.js";
import { commandLine, commandMenu, namespaceWord, saveFile } from "../commands.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { bytes, full, number, plural, time } from "../format.js";
import { copyButton, during, empty, facts, namespacePath, pagedList, searchField, tick, tickAllWords } from "../parts.js";
import { href, replace } from "../router.js";
import { tree } from "../tree.js";

export function store({ root, parameters, signal, title, listen }) {
  const ns = parameters.getAll("ns");
  let q = parameters.get("q") ?? "";
  let all = parameters.get("match") === "all";
  let below = parameters.get("below") !== "0";
  let internal = parameters.get("internal") === "1";
  let shown = [];
  title(ns.length ? `${ns.join("/").slice(0, 60)} · Store` : "Store");

  const list = pagedList({
    signal, label: "Items", kind: "row", rows: 8,
    key: (row) => JSON.stringify([row.namespace, row.key]),
    load: async (cursor) => {
      const got = await get("items", { ns, q: q || null, match: all ? "all" : null, below: below ? 1 : 0, internal: internal ? 1 : 0, cursor, limit: 50 }, signal);
      shown = cursor === null ? got.items : [...shown, ...got.items];
      return { rows: got.items, next: got.next };
    },
    draw: itemRow,
    nothing: () => (q
      ? empty("search", "No item matches", "Words of an item's value find it.")
      : empty("store", "No items here", below ? "What agents put into the store under this namespace appears here." : "Its child namespaces may hold some: tick “and below”.")),
  });

  const changed = () => {
    replace("store", { ns, q: q || null, match: all ? "all" : null, below: below ? null : "0", internal: internal ? "1" : null });
    list.start();
  };

  const spaces = h("nav.namespaces", { "aria-label": "Namespaces" });
  put(root,
    h("div.view-head", {},
      h("div.titles", {}, h("h1", {}, "Store"),
        ns.length ? h("nav.crumbs", { "aria-label": "Where this is" }, h("a", { href: href("store", { ns: ns.slice(0, -1) }), data: { up: "" }, class: "unseen", tabindex: -1, "aria-hidden": "true" }, "up"),
          h("a", { href: href("store") }, "root"), h("span.slash", { "aria-hidden": "true" }, "/"), namespacePath(ns, "store")) : h("p.muted.store-none", {}, "Items of every namespace")),
      searchField({
        label: "Search items", value: q, placeholder: "Words in values…",
        onInput: (text) => {
          q = text;
          changed();
        },
      }), commandMenu({
        commands: () => [
          q.trim() ? ["The search", commandLine("search", "--in", "items", ns.length ? ["--namespace", namespaceWord(ns), below ? "--prefix" : null] : [], "--", q)]
            : ["The items", commandLine("store", "ls", namespaceWord(ns), below ? "--prefix" : null, "--newest")],
          ns.length ? ["Erase them", commandLine("forget", "--namespace", namespaceWord(ns))] : null,
        ].filter(Boolean),
        files: () => [["The items below as JSON", () => saveFile("items.json", JSON.stringify(shown, null, 2))]],
      })),
    ns.length ? h("p.list-note", {}, "All that is known of ", h("a", { href: href("scope", { ns }) }, "this namespace"), ", or of the person ", h("a", { href: href("person", { name: ns.at(-1) }) }, code(ns.at(-1), 40))) : null,
    h("div.store-grid", {}, spaces,
      h("div.store-items", {}, h("div.ticks", {},
        tickAllWords(all, (yes) => {
          all = yes;
          changed();
        }),
        tick("and below", "Also the items of lower namespaces", below, (yes) => {
          below = yes;
          changed();
        }),
        tick("internal rows", "Also the indexes that the library keeps for itself", internal, (yes) => {
          internal = yes;
          changed();
          showNames();
        })), list.element)));

  async function names() {
    const got = await get("namespaces", { ns, internal: internal ? 1 : 0, limit: 200 }, signal);
    return [
      h("h2", {}, ns.length ? "Below" : "Namespaces"),
      ns.length ? h("a.ns-link.up", { href: href("store", { ns: ns.slice(0, -1) }) }, icon("up"), ns.length > 1 ? code(ns.at(-2), 30) : "root") : null,
      got.namespaces.length
        ? h("ul", {}, got.namespaces.map((one) => h("li", {}, h("a.ns-link", { href: href("store", { ns: one.namespace }) },
          h("span.ns-name", {}, code(one.namespace.at(-1), 30)), h("span.count", {}, `${number(one.items)}${one.more ? "+" : ""}`)))))
        : h("p.muted.pad", {}, ns.length ? "No namespaces below." : "None yet."),
      got.next ? h("p.muted.pad", {}, "There are more: search for words of their items.") : null,
    ];
  }
  const showNames = () => during(spaces, signal, names, { rows: 5 });
  showNames();
  list.start();
  listen(() => {
    if (!q) list.renew();
    names().then((shown) => put(spaces, shown)).catch(() => {});
  }, () => ({ ns, below }));
}

function itemRow(row) {
  return h("li", {}, h("a.row.item-row", { href: href("item", { ns: row.namespace, key: row.key }), data: { row: "" } },
    h("span.cell.name", {}, code(row.key, 34), h("span.sub", {}, namespacePath(row.namespace))),
    h("span.cell.preview", {}, visible(String(row.preview ?? "").slice(0, 300))),
    h("span.cell.tags", {}, row.vectors ? h("span.badge", {}, plural(row.vectors, "vector")) : null, expiry(row.expires_at),
      row.version > 1 ? h("span.badge", {}, `v${row.version}`) : null),
    h("span.cell.num.when", {}, time(row.updated_at), h("span.sub", {}, bytes(row.bytes)))));
}

function expiry(at) {
  if (!at) return null;
  const left = Date.parse(at) - Date.now();
  return h("span.badge", { class: left < 0 ? "bad" : "warn" }, icon("clock"), h("span", {}, left < 0 ? "expired" : ["expires ", time(at)]));
}

export function item({ root, parameters, signal, title }) {
  const ns = parameters.getAll("ns");
  const key = parameters.get("key") ?? "";
  title(`${key.slice(0, 60)} · Item`);
  const place = h("div");
  const near = h("section.card", { "aria-labelledby": "near-title" });
  put(root,
    h("nav.crumbs", { "aria-label": "Where this is" }, h("a", { href: href("store") }, "Store"), h("span.slash", { "aria-hidden": "true" }, "/"), namespacePath(ns, "store"),
      h("a.unseen", { href: href("store", { ns }), data: { up: "" }, tabindex: -1, "aria-hidden": "true" }, "up")),
    h("div.thread-title", {}, h("h1", {}, code(key, 400)), copyButton(key, "Copy the key"), h("span.spacer"), commandMenu({
      commands: () => [["The item", commandLine("store", "get", "--", namespaceWord(ns), key)]],
      files: () => [["The item as it is shown, as JSON", async () => saveFile(`${key}.json`, JSON.stringify(await get("item", { ns, key }, signal), null, 2))]],
    })),
    place);

  const ask = (path, offset) => get("item", { ns, key, path, offset }, signal).then((got) => got.value);

  during(place, signal, async () => {
    const got = await get("item", { ns, key }, signal);
    if (got.vectors) neighbours();
    const whole = got.metadata && got.metadata.length;
    return [
      facts([
        got.kind && got.kind !== "item" ? ["Kind", h("span.badge", {}, got.kind)] : null,
        ["Version", number(got.version)],
        ["Written", time(got.updated_at)],
        ["Created", time(got.created_at)],
        ["Expires", got.expires_at ? h("span", { title: full(got.expires_at) }, expiry(got.expires_at)) : "never"],
        ["Size", bytes(got.bytes)],
        got.vectors ? ["Vectors", [number(got.vectors), got.models?.length ? h("span.muted", {}, ` ${got.models[0].dimensions} dimensions, `, code(got.models[0].model || "no model", 40)) : null]] : null,
      ]),
      h("div.two", {},
        h("section.card.tree-card", { "aria-label": "Value" }, h("div.card-head", {}, h("h2", {}, "Value"), h("span.spacer"), h("span.type", {}, got.value.type)), tree(got.value, { load: ask, open: 2, label: "Value" })),
        h("div.stack", {},
          whole ? h("section.card.tree-card", { "aria-label": "Metadata" }, h("div.card-head", {}, h("h2", {}, "Metadata")), tree(got.metadata, { open: 2, label: "Metadata" })) : null,
          got.vectors ? near : null)),
    ];
  }, { rows: 6 });

  function neighbours() {
    during(near, signal, async () => {
      const got = await get("neighbours", { ns, key, limit: 10 }, signal);
      const found = got.neighbours.filter((one) => one.key !== key || JSON.stringify(one.namespace) !== JSON.stringify(ns));
      return [
        h("div.card-head", {}, h("h2", { id: "near-title" }, "Neighbours by vector")),
        found.length
          ? h("ol.neighbours", {}, found.map((one) => h("li", {}, h("a.neighbour", { href: href("item", { ns: one.namespace, key: one.key }), data: { row: "" } },
            score(one.score), h("span.neighbour-text", {}, code(one.key, 50), h("span.muted", {}, visible(String(one.preview ?? "").slice(0, 140))))))))
          : h("p.muted.pad", {}, "No other item of this namespace has a vector."),
      ];
    }, { rows: 4 });
  }
}

/** A score from 0 to 1 as a bar with its number. */
export function score(value) {
  const shown = Math.max(0, Math.min(1, Number(value) || 0));
  return h("span.score", { title: `Score ${value}` }, h("span.score-bar", { "aria-hidden": "true", style: { "--part": `${shown * 100}%` } }), h("span.score-number", {}, shown.toFixed(2)));
}
