// POST requests with the CSRF token of the page.

export async function post(url, fields) {
  const token = document.querySelector('meta[name="csrf"]').content;
  let response;
  try {
    response = await fetch(url, { method: "POST", headers: { "X-Leadline-Token": token }, body: new URLSearchParams(fields) });
  } catch {
    return { ok: false, error: "the dashboard does not respond; is leadline ui still running?" };
  }
  const text = await response.text();
  if (!response.ok) return { ok: false, error: text.trim() };
  return { ok: true, ...JSON.parse(text || "{}") };
}
