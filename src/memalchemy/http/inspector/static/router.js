// Views by hash routes: "#/thread?thread=…&ns=…&at=…". Everything a view shows is in its address.

/** The address of a view; lists become repeated parameters, null is left out. "" is an id like any other. */
export function href(name, parameters = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) value.forEach((one) => query.append(key, one));
    else if (value !== null && value !== undefined) query.set(key, value);
  }
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
