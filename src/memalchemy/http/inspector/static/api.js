// Reading from the server that served this page, and from no other.

import { shownTenant } from "./router.js";

const KEY = "memalchemy.token";
let memory = null;

export function token() {
  try {
    return sessionStorage.getItem(KEY) ?? memory;
  } catch {
    return memory;
  }
}

/** Keep the token for this tab, and nowhere else. */
export function keepToken(value) {
  memory = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // Storage is blocked: the token lives as long as the page.
  }
}

const TENANTS = "memalchemy.tenants";
let tokens = null;

function ofTenants() {
  if (tokens === null) {
    try {
      tokens = new Map(JSON.parse(sessionStorage.getItem(TENANTS) ?? "[]"));
    } catch {
      tokens = new Map();
    }
  }
  return tokens;
}

/** Remember that the token of now is the one of a tenant, for this tab. */
export function rememberTenant(tenant) {
  if (!token()) return;
  ofTenants().set(tenant, token());
  try {
    sessionStorage.setItem(TENANTS, JSON.stringify([...ofTenants()]));
  } catch {
    // Storage is blocked: the tokens live as long as the page.
  }
}

/** Forget all tokens but that of now: another server may answer at this address. */
export function forgetTenants() {
  ofTenants().clear();
}

/** Return the tenants whose tokens were given in this tab, or the token of one. */
export function knownTenants(tenant = null) {
  return tenant === null ? [...ofTenants().keys()] : ofTenants().get(tenant) ?? null;
}

/** A problem that the server, or the way to it, reported. */
export class Problem extends Error {
  constructor({ title, detail, code, status }) {
    super(detail || title || "The request failed");
    this.title = title || "The request failed";
    this.detail = detail || "";
    this.code = code || "";
    this.status = status ?? 0;
  }
}

const onRefusal = new Set();
/** Call `listener` when the server asks for a token. */
export const whenRefused = (listener) => onRefusal.add(listener);

/**
 * GET `api/<name>` of the shown tenant with parameters; lists are repeated parameters, null is left out. "" is an id like any other.
 *
 * Raises `Problem`, and the abort's own error if `signal` aborts.
 */
export async function get(name, parameters = {}, signal = null) {
  const url = new URL(`api/${name}`, document.baseURI);
  url.hash = "";
  for (const [key, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) value.forEach((one) => url.searchParams.append(key, one));
    else if (value !== null && value !== undefined) url.searchParams.set(key, value);
  }
  if (shownTenant() !== null) url.searchParams.set("tenant", shownTenant());
  const headers = { Accept: "application/json" };
  const sent = token();
  if (sent) headers.Authorization = `Bearer ${sent}`;
  let response;
  try {
    response = await fetch(url, { headers, signal, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({
      title: "The server does not answer",
      detail: "Look whether “memalchemy inspect” or “memalchemy serve” is still running, then try again.",
      code: "offline",
    });
  }
  // A late answer to a request without the token that was given since refuses nothing.
  if (response.status === 401 && token() === sent) onRefusal.forEach((listener) => listener());
  const body = await response.json().catch(() => null);
  if (!response.ok) {
    throw new Problem({ title: `The server answered ${response.status}`, ...(body ?? {}), status: response.status });
  }
  if (body === null) throw new Problem({ title: "The server's answer is not JSON", status: response.status });
  return body;
}
