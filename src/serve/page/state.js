// The address holds what the page shows: `#/plan?gpu=…&batch_size=8`. A link shows the same.

const listeners = [];
let writing = null;

/** The page and its parameters, as the address says. */
export function route() {
  const [, path = "", query = ""] = /^#\/([a-z]*)\??(.*)$/.exec(location.hash) ?? [];
  return { page: path || "plan", parameters: new URLSearchParams(query) };
}

/** Where a page with these parameters is. */
export function address(page, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return query ? `#/${page}?${query}` : `#/${page}`;
}

/** Shows another page. */
export function go(page, parameters = {}) {
  location.hash = address(page, parameters);
}

/** Notes the state of this page in the address, without a new entry in the history. */
export function note(page, parameters) {
  clearTimeout(writing);
  // Browsers limit how often an address changes; a slider moves more often.
  writing = setTimeout(() => {
    const next = address(page, parameters);
    if (route().page === page && location.hash !== next) history.replaceState(null, "", next);
  }, 150);
}

/** Calls back when somebody follows a link or goes back. */
export function onRoute(listener) {
  listeners.push(listener);
}

addEventListener("hashchange", () => {
  clearTimeout(writing);
  for (const listener of listeners) listener(route());
});

/** A text of any language as letters that an address keeps. */
export function packed(text) {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** And back; an address may hold anything, so nothing at all if it is not such a text. */
export function unpacked(text) {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)));
  } catch {
    return "";
  }
}
