// Text becomes elements here, and nowhere else.
//
// Must stay true: whatever a client wrote is text (`textContent`), never markup; what cannot be seen is spelled out, so
// that nothing can reorder or hide its neighbours.

// Controls, marks of direction, invisible separators and the like.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** The text with everything invisible spelled out: a mark that reverses text becomes `\u{202e}`. */
export const visible = (text) => String(text).replace(UNSEEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

export const byId = (id) => document.getElementById(id);

/** An element with a class and children; strings among them become text. */
export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** What somebody wrote, to be read and not obeyed. */
export const said = (text, tag = "span", className = "") => {
  const element = make(tag, `said ${className}`.trim(), visible(text));
  element.dir = "auto";
  return element;
};

/** Any JSON value on one line, or on several. */
export const plain = (value, indent) =>
  typeof value === "string" ? value : JSON.stringify(value, null, indent);

/** How long ago or ahead a time is: `3 min ago`. */
export function when(text, now = Date.now()) {
  if (!text) return "";
  const seconds = Math.round((Date.parse(text) - now) / 1000);
  if (Number.isNaN(seconds)) return visible(text);
  return seconds <= 0 ? `${length(-seconds)} ago` : `in ${length(seconds)}`;
}

function length(seconds) {
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const number = (value) => Number(value ?? 0).toLocaleString("en");
