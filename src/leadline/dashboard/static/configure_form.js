// Configure page: each preset has its own default rules, other selected rules are kept; rules are found by text.

export function startConfigureForm() {
  const form = document.querySelector("[data-configures]");
  if (!form) return;
  form.addEventListener("input", (event) => {
    if (event.target.name === "preset") applyDefaultRules(form, event.target);
    countChosen(form);
  });
  const search = form.querySelector("[data-searches-rules]");
  search.addEventListener("input", (event) => {
    event.stopPropagation(); // the configuration does not change
    find(form, search.value);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });
}

function applyDefaultRules(form, selected) {
  const defaultsOf = (radio) => new Set(radio.dataset.defaults.split(" "));
  const allDefaults = new Set([...form.elements.preset].flatMap((radio) => [...defaultsOf(radio)]));
  for (const box of form.querySelectorAll("[data-rule-box]")) {
    if (allDefaults.has(box.dataset.ruleBox)) box.checked = defaultsOf(selected).has(box.dataset.ruleBox);
  }
}

function countChosen(form) {
  for (const group of form.querySelectorAll(".rule-group")) {
    group.querySelector("[data-chosen]").textContent = group.querySelectorAll("[data-rule-box]:checked").length;
  }
}

// Show the rules that contain all words; the groups that have some are opened.
function find(form, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let hasMatch = false;
  for (const group of form.querySelectorAll(".rule-group")) {
    let count = 0;
    for (const rule of group.querySelectorAll("details")) {
      rule.hidden = !words.every((word) => rule.textContent.toLowerCase().replaceAll("_", " ").includes(word.replaceAll("_", " ")));
      count += rule.hidden ? 0 : 1;
    }
    group.hidden = count === 0;
    group.open = words.length > 0 && count > 0;
    hasMatch ||= count > 0;
  }
  form.querySelector("[data-no-rule]").hidden = hasMatch;
}
