// Configure page: the server converts the form to a command line after each change.
import { refreshFragments } from "./fragments.js";

const TYPING_MS = 300;

export function startConfigureForm() {
  const form = document.querySelector("[data-configures]");
  if (!form) return;
  let timer = 0;
  form.querySelector("[data-configure-button]").hidden = true;
  form.addEventListener("input", (event) => {
    if (event.target.name === "preset") applyDefaultRules(form, event.target);
    clearTimeout(timer);
    timer = setTimeout(() => apply(form), TYPING_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply(form);
  });
}

// Each preset has its own default rules; other selected rules are kept.
function applyDefaultRules(form, selected) {
  const defaultsOf = (radio) => new Set(radio.dataset.defaults.split(" "));
  const allDefaults = new Set([...form.elements.preset].flatMap((radio) => [...defaultsOf(radio)]));
  for (const box of form.querySelectorAll("[data-rule-box]")) {
    if (allDefaults.has(box.dataset.ruleBox)) box.checked = defaultsOf(selected).has(box.dataset.ruleBox);
  }
}

function apply(form) {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `?${query}`);
  refreshFragments();
}
