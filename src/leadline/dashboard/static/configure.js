// The page Configure: the server turns what is chosen into a command line, while one chooses.
import { refreshFragments } from "./fragments.js";

const TYPING_MS = 300;

export function startConfigure() {
  const form = document.querySelector("[data-configures]");
  if (!form) return;
  let timer = 0;
  form.querySelector("[data-configure-button]").hidden = true;
  form.addEventListener("input", (event) => {
    if (event.target.name === "preset") takeDefaults(form, event.target);
    clearTimeout(timer);
    timer = setTimeout(() => apply(form), TYPING_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply(form);
  });
}

// Another preset has other rules of its own; those that were chosen beside them stay.
function takeDefaults(form, chosen) {
  const of = (radio) => new Set(radio.dataset.defaults.split(" "));
  const others = new Set([...form.elements.preset].flatMap((each) => [...of(each)]));
  for (const box of form.querySelectorAll("[data-rule-box]")) {
    if (others.has(box.dataset.ruleBox)) box.checked = of(chosen).has(box.dataset.ruleBox);
  }
}

function apply(form) {
  const told = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `?${told}`);
  refreshFragments();
}
