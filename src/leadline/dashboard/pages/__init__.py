"""Pages of the dashboard, one module each, and their addresses."""

from __future__ import annotations

from typing import Final

from starlette.routing import Route

from leadline.dashboard.pages import (
    checks,
    compare,
    configure,
    controls,
    exports,
    model,
    nodes,
    overview,
    profiles,
    ranks,
    reports,
    rules,
    run_notes,
    runs,
    selection,
    tensors,
)

_RUN: Final = "/runs/{run}"

ROUTES: Final = [
    Route("/", runs.runs),
    Route("/sparklines.json", runs.sparklines),
    Route("/columns", runs.columns),
    Route("/compare", compare.compare),
    Route(_RUN, overview.overview),
    Route(f"{_RUN}/overview", overview.overview),
    Route(f"{_RUN}/nodes", nodes.nodes),
    Route(f"{_RUN}/tensors", tensors.tensors),
    Route(f"{_RUN}/tensors.npy", tensors.download),
    Route(f"{_RUN}/model", model.model),
    Route(f"{_RUN}/charts/model.json", model.chart),
    Route(f"{_RUN}/ranks", ranks.ranks),
    Route(f"{_RUN}/rules", rules.rules),
    Route(f"{_RUN}/checks", checks.checks),
    Route(f"{_RUN}/profiles", profiles.profiles),
    Route(f"{_RUN}/reports", reports.reports),
    Route(f"{_RUN}/reports/{{product}}.html", reports.page),
    Route(f"{_RUN}/reports/{{product}}.ipynb", reports.notebook),
    Route(f"{_RUN}/reports/{{product}}", reports.generate, methods=["POST"]),
    Route(f"{_RUN}/notes", run_notes.notes),
    Route(f"{_RUN}/notes", run_notes.save, methods=["POST"]),
    Route(f"{_RUN}/delete", run_notes.delete, methods=["POST"]),
    Route(f"{_RUN}/configure", configure.configure),
    Route(f"{_RUN}/span.json", selection.span),
    Route(f"{_RUN}/selection", selection.selection),
    Route(f"{_RUN}/controls", controls.controls),
    *(
        Route(f"{_RUN}/controls/{name}", controls.form_endpoint(make), methods=["POST"])
        for name, make in controls.REQUESTS.items()
    ),
    Route(f"{_RUN}/export/perfetto.json.gz", exports.perfetto),
]
