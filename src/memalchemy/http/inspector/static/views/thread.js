// One thread: what it is, and its tabs.

import { get } from "../api.js";
import { commandLine, commandMenu, ofThread, saveFile } from "../commands.js";
import { h, put, visible, code } from "../dom.js";
import { icon } from "../icons.js";
import { bytes, money, number, plural, time, tokens } from "../format.js";
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
    const kept = Object.fromEntries(["tab", "at", "a", "b", "path", "find", "around"].map((name) => [name, now.get(name)]));
    return { ...where, ...kept, ...change };
  }

  const tabOf = () => now.get("tab") ?? "transcript";
  const open = (name) => go("thread", parametersWith({ tab: name, path: null, around: null }));

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
    const others = (about.siblings ?? []).filter((one) => JSON.stringify(one.namespace) !== JSON.stringify(ns));
    const used = (about.input_tokens ?? 0) + (about.output_tokens ?? 0);
    const isImported = Date.parse(about.updated_at) - Date.parse(about.happened_at) > 60000;
    put(head,
      h("nav.crumbs", { "aria-label": "Where this is" }, h("a", { href: href("threads"), data: { up: "" } }, "Threads"),
        ns.length ? [h("span.slash", { "aria-hidden": "true" }, "/"), namespacePath(ns)] : null),
      h("div.thread-title", {}, h("h1", {}, about.title ? visible(about.title) : code(id, 400)), h("span.spacer"), menu),
      h("p.thread-id", {}, code(id, 400), copyButton(id, "Copy the thread's id")),
      facts([
        ["Framework", framework(about.framework)],
        about.agent ? ["Agent", h("a", { href: href("scope", { agent: about.agent }) }, visible(about.agent))] : null,
        about.user ? ["User", h("a", { href: href("person", { name: about.user }) }, visible(about.user))] : null,
        about.checkpoints ? ["Steps", number(about.checkpoints)] : null,
        about.entries ? ["Entries", number(about.entries)] : null,
        about.messages && about.checkpoints ? ["Messages", number(about.messages)] : null,
        about.errors ? ["Errors", h("span.bad-number", {}, number(about.errors))] : null,
        used ? ["Tokens", [tokens(about.input_tokens), h("span.muted", {}, " in, "), tokens(about.output_tokens), h("span.muted", {}, " out")]] : null,
        about.cost_usd ? ["Cost", money(about.cost_usd)] : null,
        about.stored_bytes ? ["Stored", [bytes(about.stored_bytes), about.raw_bytes > about.stored_bytes ? h("span.muted", {}, ` of ${bytes(about.raw_bytes)} in full`) : null]] : null,
        ["Happened", time(about.happened_at ?? about.updated_at)],
        isImported ? ["Written", time(about.updated_at)] : null,
        others.length ? ["Also in", others.slice(0, 6).map((one) => h("a.also", { href: href("thread", { thread: id, ns: one.namespace }) },
          one.namespace.length ? one.namespace.map((part, n) => [n ? "/" : "", code(part, 24)]) : "root"))] : null,
      ]),
      Object.keys(about.metadata ?? {}).length ? h("details.fold.metadata", {}, h("summary", {}, icon("chevron"), "Metadata"), tree(nodeOf(about.metadata), { label: "Metadata" })) : null,
      waits(), branches());
  }

  /** What the newest step waits for. */
  function waits() {
    const asked = about.interrupts ?? [];
    if (!asked.length) return null;
    return h("section.banner.waits", { "aria-label": "Waits for an answer" },
      icon("interrupt"),
      h("div.banner-body", {}, h("h2", {}, "Waits for a person"),
        asked.map((one) => h("div.asked", {}, h("p.asked-text", {}, visible(one.text ?? "")),
          one.value?.children?.length ? h("details.fold.asked-value", {}, h("summary", {}, icon("chevron"), "What is asked, in full"), tree(one.value, { label: "What is asked", open: 2 })) : null))));
  }

  /** The ends of the other branches, of which the newest step shows nothing. */
  function branches() {
    const found = about.branches ?? [];
    if (!found.length) return null;
    const at = now.get("at");
    const most = 4;
    const row = (one) => h("li", {}, h("a.branch", { href: href("thread", { ...where, at: one.checkpoint_id }), "aria-current": at === one.checkpoint_id ? "true" : null },
      code(one.checkpoint_id, 24), h("span.muted", {}, [`${plural(one.steps, "step")} of its own`, one.messages === null ? "" : `, ${plural(one.messages, "message")}`, ", "], time(one.occurred_at)),
      one.text ? h("span.branch-text", {}, visible(one.text)) : null));
    const more = found.length - most + (about.more_branches ?? 0);
    return h("section.banner.branches", { "aria-label": "Branches" }, icon("branch"),
      h("div.banner-body", {}, h("h2", {}, `The newest step is one of ${number(found.length + 1 + (about.more_branches ?? 0))} branches`),
        h("ul.branch-list", {}, found.slice(0, most).map(row),
          more > 0 ? h("li", {}, h("a", { href: context.link({ tab: "timeline", at: null }) }, `${plural(more, "more branch", "more branches")} on the timeline`)) : null)));
  }

  const menu = commandMenu({
    commands: () => {
      const at = now.get("at") ? ["--at", now.get("at")] : [];
      const tab = tabOf();
      const a = now.get("a");
      const b = now.get("b");
      return [
        tab === "timeline" ? ["The steps", commandLine("history", ofThread(id, ns))]
          : tab === "diff" && a && b ? ["The difference", commandLine("diff", ofThread(id, ns), a, b)]
            : tab === "state" ? ["The state as JSON", commandLine("show", "--raw", at, ofThread(id, ns))]
              : ["The messages", commandLine("show", at, ofThread(id, ns))],
        ["Follow it", commandLine("tail", "--follow", ofThread(id, ns))],
        ["The whole thread, to import elsewhere", commandLine("export", ["--thread", id], ["--output", "thread.jsonl"])],
        ["Erase it", commandLine("forget", ["--thread", id])],
      ];
    },
    files: () => [
      ...filesOfTab(),
      ["Messages as JSON", async () => saveFile(`${id}.json`, JSON.stringify(await allMessages(), null, 2))],
      ["as Markdown", async () => saveFile(`${id}.md`, asMarkdown(about.title ?? id, await allMessages()), "text/markdown")],
    ],
  });

  /** What the tab shows beside messages. */
  function filesOfTab() {
    if (about?.newest_id === null) return []; // a log of entries alone
    const save = (name, ask) => async () => saveFile(`${id}-${name}.json`, JSON.stringify(await ask(), null, 2));
    const [at, a, b] = ["at", "a", "b"].map((name) => now.get(name));
    return {
      timeline: [["Steps as JSON", save("steps", async () => {
        const found = [];
        for (let cursor = null; cursor !== undefined; ) {
          const page = await steps.page(cursor);
          found.push(...page.steps);
          cursor = page.next ?? undefined;
        }
        return found;
      })]],
      state: [["The state’s first levels as JSON", save("state", () => get("state", { ...where, at }, signal))]],
      diff: a && b ? [["The difference as JSON", save("difference", () => get("diff", { ...where, a, b, raw: 1 }, signal))]] : [],
      writes: [["Writes as JSON", save("writes", () => get("writes", { ...where, at }, signal))]],
    }[tabOf()] ?? [];
  }

  /** Return all messages of the shown step, as far as a file should go. */
  async function allMessages() {
    const found = [];
    let before = null;
    do {
      const got = await get("transcript", { ...where, at: now.get("at"), before, whole: 1, limit: 500 }, signal);
      found.unshift(...got.messages);
      before = got.previous;
    } while (before !== null && before !== undefined && found.length < 100000);
    return found;
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
      drawHead();
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

/** Messages as a Markdown document. */
function asMarkdown(title, messages) {
  const quoted = (text) => String(text).split("\n").map((line) => `> ${line}`).join("\n");
  const json = (value) => `\n\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\`\n`;
  return `# ${title}\n${messages.map((one) => [
    `\n## ${one.role || "entry"}${one.name ? ` (${one.name})` : ""}${one.occurred_at ? `, ${one.occurred_at}` : ""}\n`,
    one.thought ? `\n${quoted(one.thought)}\n` : "",
    one.text ? `\n${one.text}\n` : "",
    ...(one.calls ?? []).map((call) => `\nCall of \`${call.name}\`:\n${json(call.arguments)}`),
    ...(one.results ?? []).map((result) => `\nResult${result.error ? ", an error" : ""}:\n\n\`\`\`\n${result.text}\n\`\`\`\n`),
  ].join("")).join("")}`;
}
