// Views by hash routes: "#/thread?thread=…&ns=…&at=…". Everything a view shows is in its address, the tenant, too.

let tenant = null;

/** The tenant that addresses name; null is that of the token. */
export const shownTenant = () => tenant;

/** Let addresses name a tenant from now on. */
export function nameTenant(name) {
  tenant = name;
}

/** The address of a view; lists become repeated parameters, null is left out. "" is an id like any other. */
export function href(name, parameters = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) value.forEach((one) => query.append(key, one));
    else if (value !== null && value !== undefined) query.set(key, value);
  }
  if (tenant !== null && !query.has("tenant")) query.set("tenant", tenant);
  const text = query.toString();
  return `#/${name}${text ? `?${text}` : ""}`;
}

/** Split a hash into the view's name and its parameters. */
export function parse(hash) {
  const [name, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { name: name || "threads", parameters: new URLSearchParams(query) };
}

/** Change the address without another step in the browser's history, and without a new view. */
export function replace(name, parameters) {
  history.replaceState(history.state, "", href(name, parameters));
}

/** Go to a view. */
export function go(name, parameters) {
  location.hash = href(name, parameters);
}
