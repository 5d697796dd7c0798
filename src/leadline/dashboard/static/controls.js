// Controls drawer: loaded when opened; requests are polled until the job has responded.
import { showTimestamps } from "./timestamps.js";
import { post } from "./post.js";

const WAIT_MS = 1000;
let drawer = null;
let opener = null;
let isLoading = false;

export function startControls() {
  opener = document.querySelector("[data-open-controls]");
  if (!opener) return;
  drawer = document.getElementById("controls");
  opener.addEventListener("click", () => (drawer.open ? close() : open()));
  drawer.addEventListener("click", onClick);
  drawer.addEventListener("submit", onSubmit);
  drawer.addEventListener("input", onInput);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && drawer.open && !drawer.querySelector("dialog[open]")) close();
  });
  document.addEventListener("run-changed", () => drawer.open && refreshRequests());
  setInterval(() => drawer.open && drawer.querySelector('[data-status="waiting"]') && refreshRequests(), WAIT_MS);
}

function url(action = "") {
  return `/runs/${encodeURIComponent(document.body.dataset.run)}/controls${action && `/${action}`}`;
}

async function open() {
  const fresh = await load();
  if (fresh) drawer.replaceChildren(...fresh.body.childNodes);
  else showNotice("Failed to load the controls; is leadline ui still running?", "bad");
  showTimestamps(drawer);
  drawer.show();
  opener.setAttribute("aria-expanded", "true");
  drawer.querySelector("[data-close]")?.focus();
}

function close() {
  drawer.close();
  opener.setAttribute("aria-expanded", "false");
  opener.focus();
}

async function load() {
  try {
    const response = await fetch(url(), { headers: { Accept: "text/html" } });
    if (!response.ok) return null;
    return new DOMParser().parseFromString(await response.text(), "text/html");
  } catch {
    return null;
  }
}

// Replaces only the status of requests, so that forms keep their input.
async function refreshRequests() {
  if (isLoading) return;
  isLoading = true;
  const fresh = await load();
  isLoading = false;
  for (const part of fresh ? ["[data-requests]", '[data-live-part="interval"]'] : []) {
    const [old, updated] = [drawer.querySelector(part), fresh.querySelector(part)];
    if (old && updated) old.replaceChildren(...updated.childNodes);
  }
  showTimestamps(drawer);
}

async function onSubmit(event) {
  const form = event.target.closest("form[data-posts]");
  if (!form) return;
  event.preventDefault();
  await send(form.dataset.posts, new FormData(form), form);
  form.closest("dialog:not(.drawer)")?.close();
}

async function onClick(event) {
  const closest = (selector) => event.target.closest(selector);
  if (closest("[data-close]")) close();
  else if (closest("[data-refresh]")) location.reload();
  else if (closest("[data-opens]")) document.getElementById(closest("[data-opens]").dataset.opens).showModal();
  else if (closest("[data-closes]")) closest("dialog").close();
  else if (closest("[data-downloads-report]")) await downloadReport(closest("[data-downloads-report]"));
  else if (closest("[data-posts-alone]")) await send(closest("[data-posts-alone]").dataset.postsAlone, new FormData(), closest("form"));
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

async function send(action, fields, form) {
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach((button) => (button.disabled = true));
  const response = await post(url(action), fields);
  buttons.forEach((button) => (button.disabled = false));
  showNotice(response.ok ? "Request sent; its status is shown above." : response.error, response.ok ? "" : "bad", form);
  await refreshRequests();
  if (response.ok) drawer.querySelector("[data-requests]")?.scrollIntoView({ block: "nearest" });
}

// Generates the report from the current state of the run, then downloads it.
async function downloadReport(button) {
  const reports = `/runs/${encodeURIComponent(document.body.dataset.run)}/reports/report`;
  button.disabled = true;
  showNotice("Generating the report…", "");
  const response = await post(reports, {});
  button.disabled = false;
  if (!response.ok) return showNotice(response.error, "bad");
  drawer.querySelector(".request-notice")?.remove();
  const link = document.createElement("a");
  link.href = `${reports}.html?download=1`;
  link.download = "";
  link.click();
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
