// The frame around the views: navigation, the router, live refresh, keys, and the token.

import { forgetTenants, get, keepToken, knownTenants, rememberTenant, token, whenRefused } from "./api.js";
import { describeDatabase } from "./commands.js";
import { h, put, visible } from "./dom.js";
import { icon, logo } from "./icons.js";
import { Keys, themeButton } from "./keys.js";
import { Live } from "./live.js";
import { announcer, failure } from "./parts.js";
import { href, nameTenant, parse, shownTenant } from "./router.js";
import { signIn } from "./views/signin.js";
import { threads } from "./views/threads.js";
import { thread } from "./views/thread.js";
import { store, item } from "./views/store.js";
import { memories } from "./views/memories.js";
import { search } from "./views/search.js";
import { storage } from "./views/storage.js";
import { use } from "./views/use.js";
import { person, scope } from "./views/known.js";
import { sql } from "./views/sql.js";

const VIEWS = { threads, thread, store, item, memories, person, scope, use, sql, search, storage };
const NAVIGATION = [
  ["threads", "Threads", "threads", "g t"],
  ["store", "Store", "store", "g s"],
  ["memories", "Memories", "memories", "g m"],
  ["use", "Usage", "use", "g u"],
  ["sql", "SQL", "sql", "g q"],
  ["search", "Search", "search", "g f"],
  ["storage", "Storage", "storage", "g b"],
];
const PARENTS = { thread: "threads", item: "store", person: "memories", scope: "memories" };

const main = h("main", { id: "main", tabindex: -1 });
const live = new Live();
const themes = themeButton();
const database = h("div.database");
const brand = h("a.brand", { href: href("threads"), "aria-label": "memalchemy inspector" }, logo(), h("span", {}, "memalchemy"));
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
    brand, database, navigation,
    h("div.rail-foot", {}, live.button, h("span.spacer"), themes.button, help));
  put(document.getElementById("app"), rail, main, announcer());
}

const keys = new Keys({ toggleLive: () => live.toggle(), toggleTheme: () => themes.toggle(), view: () => current });

/** Say in the frame which database this is. */
async function describe() {
  const asked = shownTenant();
  try {
    const [overview, listed] = await Promise.all([get("overview"), get("tenants").catch(() => ({ tenants: [], more: false }))]);
    if (asked !== shownTenant()) return overview;
    describeDatabase(overview);
    rememberTenant(overview.tenant);
    // Of "default" an address says nothing, unless it was chosen among several.
    if (overview.tenant !== "default" || shownTenant() !== null) enter(overview.tenant);
    const name = overview.database.replace(/^[a-z0-9+]+:\/+/, "").replace(/^.*@/, "");
    put(database, h("span.database-icon", {}, icon(overview.encrypted ? "lock" : "database")),
      h("span.database-text", {},
        h("bdi.database-name", { title: overview.database }, visible(name.split("/").pop() || name || overview.dialect)),
        h("span.muted", {}, `${overview.dialect}, read-only${overview.encrypted ? ", encrypted" : ""}`),
        tenants(overview.tenant, listed)));
    return overview;
  } catch (error) {
    put(database, error.status === 403 && asked !== null ? h("button.link", { type: "button", on: { click: leaveTenant } }, "To the token’s own tenant") : null);
    return null;
  }
}

/** The tenants that the token may see, and those whose tokens were given in this tab. */
function tenants(shown, listed) {
  const known = [...new Set([...listed.tenants, ...knownTenants(), shown])].sort();
  const seesAll = listed.tenants.length > 1;
  if (known.length < 2 && shown === "default" && !asksForTokens) return null;
  const select = h("select.select.tenants", { "aria-label": "Tenant" }, known.map((one) => h("option", { value: one, selected: one === shown }, "tenant ", visible(one.slice(0, 64)))),
    listed.more ? h("option", { disabled: true }, "others by --tenant") : null,
    seesAll ? null : h("option", { value: "\n" }, "Another token…"));
  select.addEventListener("change", () => {
    if (select.value === "\n") {
      enter(null);
      keepToken(null);
      askForToken();
      return;
    }
    const { name } = parse(location.hash);
    location.hash = href(links.has(name) ? name : PARENTS[name] ?? "threads", { tenant: select.value });
  });
  return select;
}

/** Show the tenant that the token is for. */
function leaveTenant() {
  enter(null);
  history.replaceState(history.state, "", href("threads"));
  describe();
  live.restart();
  show();
}

/** Let all addresses name a tenant: one can send them to somebody. */
function enter(tenant) {
  nameTenant(tenant);
  for (const [name, link] of links) link.setAttribute("href", href(name));
  brand.setAttribute("href", href("threads"));
  const { name, parameters } = parse(location.hash);
  if (tenant === null) parameters.delete("tenant");
  else if (!parameters.has("tenant")) parameters.set("tenant", tenant);
  else return;
  const query = String(parameters);
  if (!/^#token=/.test(location.hash)) history.replaceState(history.state, "", `#/${name}${query ? `?${query}` : ""}`);
}

/** Show the tenant that the address names, with the token that was given for it. */
function follow(parameters) {
  const asked = parameters.get("tenant");
  if (asked === null || asked === shownTenant()) {
    if (shownTenant() !== null) enter(shownTenant());
    return;
  }
  enter(asked);
  const own = knownTenants(asked);
  if (own !== null) keepToken(own);
  current = null;
  describe();
  live.restart();
}

/** Show the view that the address names. */
async function show() {
  const { name, parameters } = parse(location.hash);
  follow(parameters);
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
  forgetTenants();
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
nameTenant(parse(location.hash).parameters.get("tenant"));
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
