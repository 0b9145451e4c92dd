// The frame around the views: navigation, the router, live refresh, keys, and the token.

import { get, keepToken, knownTenants, rememberTenant, token, whenRefused } from "./api.js";
import { describeDatabase } from "./commands.js";
import { h, put, visible } from "./dom.js";
import { icon, logo } from "./icons.js";
import { Keys, themeButton } from "./keys.js";
import { Live } from "./live.js";
import { announcer, failure } from "./parts.js";
import { href, parse } from "./router.js";
import { signIn } from "./views/signin.js";
import { threads } from "./views/threads.js";
import { thread } from "./views/thread.js";
import { store, item } from "./views/store.js";
import { memories } from "./views/memories.js";
import { search } from "./views/search.js";
import { storage } from "./views/storage.js";
import { use } from "./views/use.js";
import { person } from "./views/person.js";

const VIEWS = { threads, thread, store, item, memories, person, use, search, storage };
const NAVIGATION = [
  ["threads", "Threads", "threads", "g t"],
  ["store", "Store", "store", "g s"],
  ["memories", "Memories", "memories", "g m"],
  ["use", "Usage", "use", "g u"],
  ["search", "Search", "search", "g f"],
  ["storage", "Storage", "storage", "g b"],
];
const PARENTS = { thread: "threads", item: "store", person: "memories" };

const main = h("main", { id: "main", tabindex: -1 });
const live = new Live();
const themes = themeButton();
const database = h("div.database");
const links = new Map();
let current = null;
let ending = new AbortController();

function frame() {
  const navigation = h("nav.rail-links", { "aria-label": "Main" }, h("ul", {}, NAVIGATION.map(([name, text, drawn, keys]) => {
    const link = h("a.rail-link", { href: href(name), title: `${text} (${keys})` }, icon(drawn), h("span", {}, text));
    links.set(name, link);
    return h("li", {}, link);
  })));
  const help = h("button.ghost", { type: "button", "aria-label": "Keyboard help", title: "Keyboard (?)", on: { click: () => keys.help() } }, icon("help"));
  const rail = h("header.rail", {},
    h("a.brand", { href: href("threads"), "aria-label": "memalchemy inspector" }, logo(), h("span", {}, "memalchemy")),
    database, navigation,
    h("div.rail-foot", {}, live.button, h("span.spacer"), themes.button, help));
  put(document.getElementById("app"), rail, main, announcer());
}

const keys = new Keys({ toggleLive: () => live.toggle(), toggleTheme: () => themes.toggle(), view: () => current });

/** Say in the frame which database this is. */
async function describe() {
  try {
    const overview = await get("overview");
    describeDatabase(overview);
    rememberTenant(overview.tenant);
    const name = overview.database.replace(/^[a-z0-9+]+:\/+/, "").replace(/^.*@/, "");
    put(database, h("span.database-icon", {}, icon(overview.encrypted ? "lock" : "database")),
      h("span.database-text", {},
        h("bdi.database-name", { title: overview.database }, visible(name.split("/").pop() || name || overview.dialect)),
        h("span.muted", {}, `${overview.dialect}, read-only${overview.encrypted ? ", encrypted" : ""}`),
        tenants(overview.tenant)));
    return overview;
  } catch {
    put(database);
    return null;
  }
}

/** The tenant that is shown, and the others whose tokens were given in this tab. */
function tenants(shown) {
  const known = knownTenants();
  if (known.length < 2 && shown === "default" && !asksForTokens) return null;
  const select = h("select.select.tenants", { "aria-label": "Tenant" }, known.map((one) => h("option", { value: one, selected: one === shown }, `tenant ${one}`)), h("option", { value: "\n" }, "Another token…"));
  select.addEventListener("change", () => {
    const other = select.value === "\n" ? null : knownTenants(select.value);
    keepToken(other);
    if (other === null) {
      askForToken();
      return;
    }
    describe();
    live.restart();
    show();
  });
  return select;
}

/** Show the view that the address names. */
async function show() {
  const { name, parameters } = parse(location.hash);
  if (current?.name === name && current.view.update?.(parameters)) {
    mark(name);
    return;
  }
  ending.abort();
  ending = new AbortController();
  live.listen(null);
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : null;
  const root = h("div.view", { class: `view-${name}` });
  put(main, root);
  main.scrollTop = 0;
  mark(name);
  if (!view) {
    document.title = "Not found · memalchemy";
    put(root, failure({ title: "There is no such page", detail: "The address names no view of the inspector. Begin with the threads." }));
    root.append(h("p.center", {}, h("a", { href: href("threads") }, "All threads")));
    current = null;
    return;
  }
  const made = view({
    root, parameters, signal: ending.signal,
    title: (text) => {
      document.title = text ? `${text} · memalchemy` : "memalchemy";
    },
    listen: (listener, items) => live.listen(listener, items),
  });
  current = { name, view: made ?? {} };
}

function mark(name) {
  for (const [one, link] of links) {
    if (one === (PARENTS[name] ?? name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

Object.defineProperty(keys.actions, "view", { value: () => current?.view });

/** Take the token out of an address that `memalchemy inspect` printed. */
function takeToken() {
  const found = /^#token=([^&]+)(?:&to=(.*))?$/s.exec(location.hash);
  if (!found) return;
  keepToken(decodeURIComponent(found[1]));
  history.replaceState(null, "", found[2] ? `#${decodeURIComponent(found[2])}` : href("threads"));
}

let asking = false;
let asksForTokens = false;
function askForToken() {
  if (asking) return;
  asking = true;
  asksForTokens = true;
  ending.abort();
  ending = new AbortController();
  current = null;
  const refused = token() !== null;
  keepToken(null);
  document.title = "Token · memalchemy";
  put(main, signIn(refused, async (given) => {
    asking = false;
    keepToken(given);
    const overview = await describe();
    if (overview) {
      live.restart();
      show();
    } else if (!asking) {
      show();
    }
  }));
}

takeToken();
frame();
whenRefused(askForToken);
addEventListener("hashchange", () => {
  if (/^#token=/.test(location.hash)) {
    takeToken();
    asking = false;
    describe();
    live.wake();
  }
  if (!asking) show();
});
describe();
show();
live.wake();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
