// One thread: what it is, and its tabs.

import { get } from "../api.js";
import { h, put, code } from "../dom.js";
import { icon } from "../icons.js";
import { bytes, number, plural, ratio, time } from "../format.js";
import { announce, copyButton, during, facts, framework, namespacePath } from "../parts.js";
import { go, href, replace } from "../router.js";
import { nodeOf, tree } from "../tree.js";
import { Steps } from "./steps.js";
import { transcript } from "./transcript.js";
import { timeline } from "./timeline.js";
import { state } from "./state.js";
import { diff } from "./diff.js";
import { writes } from "./writes.js";

const TABS = [
  ["transcript", "Transcript", transcript],
  ["timeline", "Timeline", timeline],
  ["state", "State", state],
  ["diff", "Diff", diff],
  ["writes", "Writes", writes],
];

export function thread({ root, parameters, signal, title, listen }) {
  const id = parameters.get("thread") ?? "";
  const ns = parameters.getAll("ns");
  const where = { thread: id, ns };
  let now = new URLSearchParams(parameters);
  let ending = new AbortController();
  let shown = null;
  let about = null;
  const steps = new Steps(where, signal);

  const head = h("div.thread-head");
  const panel = h("div.panel", { role: "tabpanel", id: "panel", tabindex: 0 });
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "Parts of the thread" });
  const buttons = TABS.map(([name, text], n) => h("button.tab", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", title: `${text} (${n + 1})`,
    on: { click: () => open(name), keydown: (event) => walk(event, n) },
  }, text));
  put(tabs, buttons);

  /** What a tab may ask for, and where it draws. */
  const context = {
    where, steps, root: panel, about: () => about,
    get: (name) => now.get(name),
    link: (change) => href("thread", parametersWith(change)),
    open: (change) => go("thread", parametersWith(change)),
    replace: (change) => {
      replace("thread", parametersWith(change));
      now = new URLSearchParams(location.hash.split(/\?(.*)/s)[1]);
    },
  };

  function parametersWith(change) {
    const kept = Object.fromEntries(["tab", "at", "a", "b", "path"].map((name) => [name, now.get(name)]));
    return { ...where, ...kept, ...change };
  }

  const tabOf = () => now.get("tab") ?? "transcript";
  const open = (name) => go("thread", parametersWith({ tab: name, path: null }));

  function walk(event, n) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (n + step + TABS.length) % TABS.length;
    buttons[next].focus();
    open(TABS[next][0]);
  }

  function drawTab() {
    ending.abort();
    ending = new AbortController();
    const name = TABS.some(([one]) => one === tabOf()) ? tabOf() : "transcript";
    TABS.forEach(([one], n) => {
      buttons[n].setAttribute("aria-selected", String(one === name));
      buttons[n].tabIndex = one === name ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    title(`${id.slice(0, 60)} · ${TABS.find(([one]) => one === name)[1]}`);
    const place = h(`div.tab-${name}`);
    put(panel, place);
    shown = TABS.find(([one]) => one === name)[2]({ ...context, root: place, signal: ending.signal }) ?? {};
  }

  function drawHead() {
    const saved = ratio(about.raw_bytes, about.stored_bytes);
    const others = (about.siblings ?? []).filter((one) => JSON.stringify(one.namespace) !== JSON.stringify(ns));
    put(head,
      h("nav.crumbs", { "aria-label": "Where this is" }, h("a", { href: href("threads"), data: { up: "" } }, "Threads"),
        ns.length ? [h("span.slash", { "aria-hidden": "true" }, "/"), namespacePath(ns)] : null),
      h("div.thread-title", {}, h("h1", {}, code(id, 400)), copyButton(id, "Copy the thread's id")),
      facts([
        ["Framework", framework(about.framework)],
        about.checkpoints ? ["Steps", number(about.checkpoints)] : null,
        about.entries ? ["Entries", number(about.entries)] : null,
        about.stored_bytes ? ["Stored", [bytes(about.stored_bytes), saved ? h("span.muted", {}, ` of ${bytes(about.raw_bytes)}, ${saved} smaller`) : null]] : null,
        ["Written", time(about.updated_at)],
        others.length ? ["Also in", others.slice(0, 6).map((one) => h("a.also", { href: href("thread", { thread: id, ns: one.namespace }) },
          one.namespace.length ? one.namespace.map((part, n) => [n ? "/" : "", code(part, 24)]) : "root"))] : null,
      ]),
      Object.keys(about.metadata ?? {}).length ? h("details.fold.metadata", {}, h("summary", {}, icon("chevron"), "Metadata"), tree(nodeOf(about.metadata), { label: "Metadata" })) : null);
  }

  async function start() {
    const there = await during(head, signal, async () => {
      about = await get("thread", where, signal);
      steps.newest = about.newest_id;
    }, { rows: 3 });
    if (!there) return;
    drawHead();
    put(root, head, tabs, panel);
    drawTab();
  }

  put(root, head);
  start();

  listen(async (changed) => {
    const mine = changed.some((one) => one.thread_id === id && JSON.stringify(one.namespace) === JSON.stringify(ns));
    if (!mine || about === null) return;
    const got = await get("thread", where, signal).catch(() => null);
    if (got === null || signal.aborted) return;
    about = got;
    steps.forget(about.newest_id);
    drawHead();
    announce(`The thread has ${about.checkpoints ? plural(about.checkpoints, "step") : plural(about.entries, "entry", "entries")} now`);
    shown?.renew?.();
  });

  return {
    update(next) {
      if (about === null || next.get("thread") !== id || JSON.stringify(next.getAll("ns")) !== JSON.stringify(ns)) return false;
      now = new URLSearchParams(next);
      drawTab();
      return true;
    },
    key(pressed) {
      if (about === null) return false;
      if (/^[1-5]$/.test(pressed)) {
        open(TABS[Number(pressed) - 1][0]);
        buttons[Number(pressed) - 1].focus();
        return true;
      }
      return shown?.key?.(pressed) ?? false;
    },
  };
}
