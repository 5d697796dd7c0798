// Configure page: each preset has its own default rules; other selected rules are kept.

export function startConfigureForm() {
  const form = document.querySelector("[data-configures]");
  form?.addEventListener("input", (event) => {
    if (event.target.name === "preset") applyDefaultRules(form, event.target);
  });
}

function applyDefaultRules(form, selected) {
  const defaultsOf = (radio) => new Set(radio.dataset.defaults.split(" "));
  const allDefaults = new Set([...form.elements.preset].flatMap((radio) => [...defaultsOf(radio)]));
  for (const box of form.querySelectorAll("[data-rule-box]")) {
    if (allDefaults.has(box.dataset.ruleBox)) box.checked = defaultsOf(selected).has(box.dataset.ruleBox);
  }
}
