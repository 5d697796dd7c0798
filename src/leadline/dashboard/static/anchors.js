// Deep links: what the address names is opened, brought into view and given the focus, also when it came later.

let isSought = false;

export function startAnchors() {
  seek();
  addEventListener("hashchange", seek);
  document.addEventListener("fragment-swapped", () => { if (isSought) seek(); });
}

function seek() {
  const name = decode(location.hash.slice(1));
  const target = name ? document.getElementById(name) : null;
  isSought = Boolean(name) && target === null;
  if (!target) return;
  for (let each = target; each; each = each.parentElement?.closest("details")) {
    if (each instanceof HTMLDetailsElement) each.open = true;
  }
  target.scrollIntoView({ block: "start" });
  const focusable = target instanceof HTMLDetailsElement ? target.querySelector("summary") : target;
  focusable.focus({ preventScroll: true });
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody wrote a lone per cent sign
  }
}
