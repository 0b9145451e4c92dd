// Asks for the token of a server that wants one.

import { h } from "../dom.js";
import { icon } from "../icons.js";

/** A form that calls `enter(token)`. */
export function signIn(refused, enter) {
  const input = h("input", {
    type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-help",
    "aria-invalid": refused ? "true" : null,
  });
  const form = h("form.signin", { novalidate: true },
    h("div.empty-icon", {}, icon("lock")),
    h("h1", {}, "This server asks for a token"),
    refused ? h("p.error", { role: "alert" }, "The server refused the token.") : null,
    h("label", { for: "token" }, "Bearer token"), input,
    h("p.muted", { id: "token-help" }, "“memalchemy inspect” prints an address that has the token in it. Under “memalchemy serve” it is "
      + "one of the server's tokens. It is kept in this tab until you close it."),
    h("button.button.primary", { type: "submit" }, "Open"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) enter(input.value.trim());
    else input.focus();
  });
  setTimeout(() => input.focus(), 0);
  return form;
}
