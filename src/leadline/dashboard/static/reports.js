// Reports page: shows a generated report, or why generating it failed.
import { errorOf } from "./controls.js";

document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (!detail.elt.matches("[data-generates]")) return;
  if (detail.successful) return void location.assign(JSON.parse(detail.xhr.responseText).address);
  const error = document.querySelector("[data-generates-error]");
  error.textContent = errorOf(detail.xhr);
  error.hidden = false;
});
