// Deep links: opens, scrolls to and focuses the element named in the URL, also if it is added later.

let isPending = false;

export function startAnchors() {
  seek();
  addEventListener("hashchange", seek);
  document.addEventListener("htmx:afterSwap", () => { if (isPending) seek(); });
}

function seek() {
  const name = decode(location.hash.slice(1));
  const target = name ? document.getElementById(name) : null;
  isPending = Boolean(name) && target === null;
  if (!target) return;
  for (let element = target; element; element = element.parentElement?.closest("details")) {
    if (element instanceof HTMLDetailsElement) element.open = true;
  }
  target.scrollIntoView({ block: "start" });
  const focusable = target instanceof HTMLDetailsElement ? target.querySelector("summary") : target;
  focusable.focus({ preventScroll: true });
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // malformed percent-encoding
  }
}
