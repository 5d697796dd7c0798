// Requests that change something: the server takes them only with the token that this page was given.

export async function post(address, fields) {
  const token = document.querySelector('meta[name="csrf"]').content;
  let answer;
  try {
    answer = await fetch(address, { method: "POST", headers: { "X-Leadline-Token": token }, body: new URLSearchParams(fields) });
  } catch {
    return { ok: false, error: "the dashboard does not answer; is leadline ui still running?" };
  }
  const text = await answer.text();
  if (!answer.ok) return { ok: false, error: text.trim() };
  return { ok: true, ...JSON.parse(text || "{}") };
}
