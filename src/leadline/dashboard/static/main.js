// Entry point of all pages.
import { startAnchors } from "./anchors.js";
import { startCharts } from "./charts.js";
import { startChartForms } from "./chart_forms.js";
import { startConfigureForm } from "./configure_form.js";
import { startControls } from "./controls.js";
import { startChartSelectors } from "./chart_selectors.js";
import { startCopyButtons } from "./copy.js";
import { startLiveEvents } from "./live_events.js";
import { startLivePage } from "./live_page.js";
import { startTimestamps } from "./timestamps.js";
import { startRunList } from "./run_list.js";
import { startTables } from "./tables.js";

startTimestamps();
startCopyButtons();
startControls();
startChartForms();
startTables();
startCharts();
startChartSelectors();
startLivePage();
startRunList();
startConfigureForm();
startLiveEvents();
startAnchors();
