// Controls drawer: loaded when opened; htmx posts its forms and refreshes the status of requests.

let drawer = null;
let opener = null;

export function startControls() {
  opener = document.querySelector("[data-open-controls]");
  if (!opener) return;
  drawer = document.getElementById("controls");
  opener.addEventListener("click", () => (drawer.open ? close() : htmx.trigger(drawer, "open-drawer")));
  drawer.addEventListener("click", onClick);
  drawer.addEventListener("input", onInput);
  drawer.addEventListener("htmx:beforeRequest", ({ target }) => {
    if (target.matches("[data-downloads-report]")) showNotice("Generating the report…", "");
  });
  drawer.addEventListener("htmx:afterRequest", onResponse);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && drawer.open && !drawer.querySelector("dialog[open]")) close();
  });
}

function close() {
  drawer.close();
  drawer.replaceChildren();
  opener.setAttribute("aria-expanded", "false");
  opener.focus();
}

function onResponse({ detail }) {
  if (detail.elt === drawer) open(detail.successful);
  else if (detail.requestConfig.verb === "post") showOutcome(detail);
}

function open(isLoaded) {
  if (!isLoaded) showNotice("Failed to load the controls; is leadline ui still running?", "bad");
  drawer.show();
  opener.setAttribute("aria-expanded", "true");
  drawer.querySelector("[data-close]")?.focus();
}

function showOutcome({ elt, xhr, successful }) {
  const form = elt.closest("form");
  if (!successful) showNotice(errorOf(xhr), "bad", form);
  else if (elt.matches("[data-downloads-report]")) download();
  else {
    drawer.querySelector(".request-notice")?.remove();
    const requests = drawer.querySelector("[data-requests]");
    htmx.trigger(requests, "refresh");
    requests.parentElement.scrollTop = 0;
  }
  form?.closest("dialog:not(.drawer)")?.close();
}

export function errorOf(xhr) {
  return xhr.responseText.trim() || "the dashboard does not respond; is leadline ui still running?";
}

function download() {
  drawer.querySelector(".request-notice")?.remove();
  const link = document.createElement("a");
  link.href = `/runs/${encodeURIComponent(document.body.dataset.run)}/reports/report.html?download=1`;
  link.download = "";
  link.click();
}

function onClick(event) {
  const closest = (selector) => event.target.closest(selector);
  if (closest("[data-close]")) close();
  else if (closest("[data-refresh]")) location.reload();
  else if (closest("[data-opens]")) document.getElementById(closest("[data-opens]").dataset.opens).showModal();
  else if (closest("[data-closes]")) closest("dialog").close();
}

function onInput(event) {
  if (event.target.matches("[data-chooses-rule]")) {
    for (const fieldset of drawer.querySelectorAll("[data-rule]")) {
      fieldset.hidden = fieldset.disabled = fieldset.dataset.rule !== event.target.value;
    }
  }
  const warning = drawer.querySelector('[data-warns="steps"]');
  const form = warning?.closest("form");
  if (form) warning.hidden = !(Number(form.elements.steps.value) > 2 && (form.elements.detailed.checked || form.elements.dataloader.checked));
}

function showNotice(text, kind, form = null) {
  drawer.querySelector(".request-notice")?.remove();
  const notice = document.createElement("p");
  notice.className = `notice request-notice ${kind}`;
  notice.setAttribute("role", kind ? "alert" : "status");
  notice.textContent = text;
  const outer = form?.closest("dialog:not(.drawer)") ? null : form;
  if (outer) outer.after(notice);
  else (drawer.querySelector(".drawer-body") ?? drawer).prepend(notice);
}
