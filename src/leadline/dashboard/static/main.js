// Starts what a page needs: charts, tables, live updates.
import { startAnchors } from "./anchors.js";
import { startCharts } from "./charts.js";
import { startChoices } from "./choices.js";
import { startConfigure } from "./configure.js";
import { startControls } from "./controls.js";
import { startChoosers } from "./choosers.js";
import { startCopying } from "./copying.js";
import { startFragments } from "./fragments.js";
import { startLive } from "./live.js";
import { startMoments } from "./moments.js";
import { startRuns } from "./runs.js";
import { startTables } from "./tables.js";

startMoments();
startCopying();
startControls();
startChoices();
startTables();
startCharts();
startChoosers();
startFragments();
startRuns();
startConfigure();
startLive();
startAnchors();
