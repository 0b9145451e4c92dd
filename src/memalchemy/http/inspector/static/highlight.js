// Colours for code: strings, numbers, comments and a few words that many languages share.

import { h, visible } from "./dom.js";

const MOST = 20000;
const WORDS = new Set(("and as assert async await begin break case catch class const continue def default del delete do elif else end "
  + "enum except export extends false finally fn for from func function if impl import in insert interface into is join lambda let "
  + "limit match module mut new nil none not null on or order by group pass private public raise return select self set static "
  + "struct switch then this throw true try type undefined update use values var void when where while with yield").split(" "));
const HASH = new Set(["py", "python", "sh", "bash", "shell", "yaml", "yml", "toml", "rb", "ruby", "r", "dockerfile", "make"]);
const SQL = new Set(["sql", "lua", "haskell"]);
const PIECES = /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|(#[^\n]*)|(--[^\n]*)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(\b\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?\b)|([A-Za-z_][A-Za-z0-9_]*)/g;

/** Return code as nodes, with colours if its language is known and it is not too long. */
export function highlighted(text, language) {
  const name = String(language ?? "").toLowerCase();
  if (!name || name === "text" || name === "txt" || text.length > MOST) return visible(text);
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(PIECES)) {
    const [all, slashes, hash, dashes, string, number, word] = match;
    const kind = (slashes && !HASH.has(name) && !SQL.has(name)) || (hash && HASH.has(name)) || (dashes && SQL.has(name)) ? "comment"
      : string ? "string" : number ? "number" : word && WORDS.has(name === "sql" ? word.toLowerCase() : word) ? "word" : word && /^(?:None|True|False)$/.test(word) ? "word" : null;
    if (!kind) continue;
    if (match.index > from) nodes.push(visible(text.slice(from, match.index)));
    nodes.push(h(`span.c-${kind}`, {}, visible(all)));
    from = match.index + all.length;
  }
  nodes.push(visible(text.slice(from)));
  return nodes;
}
