// The address has the state of the page: `#/plan?gpu=…&batch_size=8`. A link shows the same.

const listeners = [];
let writing = null;

/** The page and its parameters, from the address. */
export function route() {
  const [, path = "", query = ""] = /^#\/([a-z]*)\??(.*)$/.exec(location.hash) ?? [];
  return { page: path || "plan", parameters: new URLSearchParams(query) };
}

/** The address of a page with these parameters. */
export function address(page, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return query ? `#/${page}?${query}` : `#/${page}`;
}

/** Shows another page. */
export function go(page, parameters = {}) {
  location.hash = address(page, parameters);
}

/** Stores the state of this page in the address, without a new entry in the history. */
export function note(page, parameters) {
  clearTimeout(writing);
  // Browsers limit how often an address changes; a slider moves more often.
  writing = setTimeout(() => {
    const next = address(page, parameters);
    if (route().page === page && location.hash !== next) history.replaceState(null, "", next);
  }, 150);
}

/** Calls back when the user follows a link or goes back. */
export function onRoute(listener) {
  listeners.push(listener);
}

addEventListener("hashchange", () => {
  clearTimeout(writing);
  for (const listener of listeners) listener(route());
});

/** Encodes any text as letters that are allowed in an address. */
export function packed(text) {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Decodes such a text; empty if it is not one, since an address may have anything. */
export function unpacked(text) {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)));
  } catch {
    return "";
  }
}
