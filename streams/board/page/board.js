// Draws what /board/stream says, once a second. All text goes in as text, never as markup.
"use strict";

const KEPT_S = 600;        // of the charts, as the server keeps
const SILENT_MS = 4000;    // without news for this long the numbers are old
const WORDS = { bad: "Act", warn: "Look", note: "Note", good: "Good" };

const $ = (selector, inside = document) => inside.querySelector(selector);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const narrow = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const lasting = (one, now) => `since ${clock(one.since_ms)}, ${seconds(Math.max(0, Math.round((now - one.since_ms) / 1000)), 0)} ago${one.maybe_longer ? " or longer" : ""}`;
const known = (value) => value !== null && value !== undefined;
const count = (value) => known(value) ? value.toLocaleString("en-US", { maximumFractionDigits: 0 }) : "–";
const rate = (value) => known(value) ? narrow.format(value) : "–";
const percent = (share, digits = 1) => known(share) ? `${(100 * share).toFixed(digits)} %` : "–";
const ms = (value) => known(value) ? (value >= 10000 ? `${(value / 1000).toFixed(1)} s` : `${value.toFixed(0)} ms`) : "–";
function seconds(value, digits = 1) {
  if (!known(value)) return "–";
  if (value < 10) return `${value.toFixed(digits)} s`;
  if (value < 120) return `${value.toFixed(0)} s`;
  return value < 7200 ? `${(value / 60).toFixed(0)} min` : `${(value / 3600).toFixed(1)} h`;
}

function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}
function say(name, value) {
  for (const element of document.querySelectorAll(`[data-value="${name}"]`)) text(element, value);
}
function make(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

// Rows keep their place in the document, so that a reader or a selection is not disturbed.
function rows(table, wanted, empty) {
  const body = $("tbody", table), columns = $("thead tr", table).children.length;
  if (!wanted.length) wanted = [[{ text: empty, class: "empty", span: columns }]];
  while (body.rows.length > wanted.length) body.deleteRow(-1);
  wanted.forEach((cells, index) => {
    const row = body.rows[index] || body.insertRow();
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((cell, at) => {
      const td = row.cells[at] || row.insertCell();
      td.className = cell.class || "";
      td.colSpan = cell.span || 1;
      if (known(cell.share)) {
        if (!$("meter", td)) td.replaceChildren(make("meter", { min: 0, max: 1 }));
        const meter = $("meter", td);
        meter.value = cell.share;
        meter.setAttribute("aria-label", percent(cell.share));
        meter.title = percent(cell.share);
      } else text(td, cell.text);
    });
  });
}
const word = (value, kind = "") => ({ text: value, class: kind });
const number = (value, kind = "") => ({ text: value, class: `n ${kind}` });

// Commands stand between backticks. A command's words stay whole; only one wider than the screen is broken.
function showRemedy(element, remedy) {
  if (element.dataset.said === remedy) return;   // else a selection to copy from would be lost every second
  element.dataset.said = remedy;
  element.replaceChildren(...remedy.split("`").map((part, at) => at % 2 ? commandOf(part) : part));
}
function commandOf(command) {
  return make("code", {}, ...command.split(" ").flatMap((one, at) => [...(at ? [" "] : []), make("span", {}, one)]));
}

let told = "";
function showConditions(conditions, now) {
  const list = $("#conditions");
  while (list.children.length > conditions.length) list.lastChild.remove();
  conditions.forEach((condition, index) => {
    let item = list.children[index];
    if (!item) {
      item = make("li", {}, make("span", { class: "level" }), make("strong"), " ", make("span", { class: "since" }), make("p"), make("p", { class: "remedy" }, make("b"), make("span", { class: "how" })));
      list.append(item);
    }
    item.className = condition.level;
    item.dataset.name = condition.name;
    text($(".level", item), WORDS[condition.level]);
    text($("strong", item), condition.title);
    text($(".since", item), lasting(condition, now));
    text($("p", item), condition.meaning);
    text($("b", item), condition.remedy ? "What to do: " : "");
    showRemedy($(".how", item), condition.remedy);
    $(".remedy", item).hidden = !condition.remedy;
  });
  const titles = conditions.map((one) => one.title).join(". ");
  if (titles !== told) text($("#spoken"), titles);   // read aloud when it changes, not every second
  told = titles;
  const bad = conditions.filter((one) => one.level === "bad").length;
  document.title = bad ? `(${bad}) Overspill` : "Overspill";
}

const charts = new Map();
let past = { at_s: [], threshold: [], depths: {} };

function chartOf(name, holder) {
  const stroke = (variable) => () => css(variable);
  const axis = { stroke: stroke("--soft"), grid: { stroke: stroke("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const plot = new uPlot({
    width: holder.clientWidth || 320, height: 120, cursor: { show: false }, legend: { show: false },
    scales: { y: { range: (_, __, high) => [0, Math.max(5, high * 1.15)] } },
    axes: [{ ...axis, size: 24, space: 80, values: (_, at) => at.map((s) => clock(1000 * s).slice(0, 5)), incrs: [60, 120, 300] }, { ...axis, size: 38, space: 28 }],
    series: [
      {},
      { stroke: stroke("--series"), fill: stroke("--fill"), width: 2, points: { show: false } },
      { stroke: stroke("--threshold"), width: 1.5, dash: [6, 4], points: { show: false } },
    ],
  }, [[], [], []], holder);
  new ResizeObserver(() => plot.setSize({ width: holder.clientWidth, height: 120 })).observe(holder);
  charts.set(name, plot);
  return plot;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((plot) => plot.redraw()));

function remember(board) {
  const at = board.at_ms / 1000;
  past.at_s.push(at);
  past.threshold.push(board.threshold);
  for (const pool of board.pools) {
    past.depths[pool.name] ??= past.at_s.slice(1).map(() => null);
    past.depths[pool.name].push(pool.queue_depth);
  }
  for (const column of Object.values(past.depths)) while (column.length < past.at_s.length) column.push(null);
  while (past.at_s[0] < at - KEPT_S) {
    for (const column of [past.at_s, past.threshold, ...Object.values(past.depths)]) column.shift();
  }
}

function showPool(pool, board) {
  let card = document.getElementById(`pool-${pool.name}`);
  if (!card) {
    const facts = [["unfinished", "Unfinished"], ["free", "Free slots"], ["nodes", "Nodes alive"], ["oldest", "Oldest waits"], ["drain", "Time to drain"], ["flow", "In / out a second"]];
    card = make("article", { class: "pool", id: `pool-${pool.name}` },
      make("h3", {}, pool.name, make("span")),
      make("p", { class: "more" }, make("span", { class: "big", "data-value": `${pool.name}.queue_depth` }), " ", make("span", { "data-value": `${pool.name}.queue_words` })),
      make("div", { class: "chart", role: "img" }),
      make("dl", {}, ...facts.map(([key, label]) => make("div", {}, make("dt", {}, label), make("dd", { "data-value": `${pool.name}.${key}` })))));
    $("#pool-cards").append(card);
    chartOf(pool.name, $(".chart", card));
  }
  const gpu = pool.name === "gpu", remark = $("h3 span", card);
  text(remark, pool.paused ? "paused" : pool.nodes ? `price ${pool.price} a slot-second` : "down");
  remark.className = pool.nodes ? "" : "bad";
  say(`${pool.name}.queue_depth`, count(pool.queue_depth));
  say(`${pool.name}.queue_words`, gpu ? `queued; at ${board.threshold} work overflows` : "queued");
  say(`${pool.name}.unfinished`, count(pool.unfinished));
  say(`${pool.name}.free`, `${count(pool.free_slots)} of ${count(pool.slots)}`);
  say(`${pool.name}.nodes`, pool.nodes < pool.nodes_known ? `${count(pool.nodes)} of ${count(pool.nodes_known)} known` : count(pool.nodes));
  say(`${pool.name}.oldest`, seconds(pool.oldest_age_s));
  say(`${pool.name}.drain`, pool.no_drain || seconds(pool.drain_s));
  say(`${pool.name}.flow`, `${rate(pool.arrival_rate)} / ${rate(pool.finish_rate)}`);
  const depths = past.depths[pool.name], highest = Math.max(0, ...depths.filter(known));
  charts.get(pool.name).setData([past.at_s, depths, gpu ? past.threshold : past.at_s.map(() => null)]);
  const limit = gpu ? `, threshold ${board.threshold}` : "";
  $(".chart", card).setAttribute("aria-label", `Queue of ${pool.name}, last ten minutes: now ${count(pool.queue_depth)}, highest ${count(highest)}${limit}`);
}

function showTiles(board) {
  const sum = (key) => board.pools.every((pool) => !known(pool[key])) ? null : board.pools.reduce((all, pool) => all + (pool[key] || 0), 0);
  const { cost, slo, results } = board;
  say("arriving", `${rate(sum("arrival_rate"))} /s`);
  say("undecided", `${count(board.undecided)} not decided yet`);
  say("finishing", `${rate(sum("finish_rate"))} /s`);
  say("results", `${count(results.ok || 0)} ok, ${count(results.error || 0)} errors, ${count(results.expired || 0)} expired`);
  say("attained", percent(slo.attained, 2));
  say("burn", known(slo.burn) ? `${slo.burn.toFixed(1)} × the error budget of ${percent(1 - slo.target, 0)}; ${count(slo.missed)} missed in all` : "no request had an objective");
  say("cost", (cost.lately / board.window_s).toFixed(2));
  say("cost-total", `GPU slots' worth in all pools; ${cost.total.toFixed(1)} slot-seconds in all`);
  say("saved", percent(cost.saved));
  say("saved-how", known(cost.saved) ? "expected, by run times measured here" : "not known: gpu has run nothing like it");
  say("since", clock(board.since_ms));
}

function proof(proven, now) {
  if (!proven) return "";
  const error = known(proven.golden_error) ? `golden error ${Number(proven.golden_error.toPrecision(2))}, ` : "";
  return `${error}validated ${seconds(Math.max(0, now - proven.validated_at_ms) / 1000)} ago`;
}

function showTables(board) {
  const lately = board.decisions.reduce((all, one) => all + one.lately, 0);
  rows($("#decisions"), board.decisions.map((one) => [
    word(one.pool), word(one.reason), word(one.words), number(count(one.lately)),
    { share: lately ? one.lately / lately : 0, class: "n" }, number(count(one.total)),
  ]), "no request has been decided yet");
  const faults = (what, list) => list.map((one) => [word(what), word(one.category), number(count(one.lately)), number(count(one.total))]);
  rows($("#faults"), [...faults("dead letter", board.dead_letters), ...faults("error", board.errors)], "none");
  rows($("#nodes"), board.nodes.map((node) => [
    word(node.id), word(node.pool), word(node.state, `state-${node.state}`), number(`${count(node.busy)} of ${count(node.slots)}`),
    number(count(node.unfinished)), number(ms(node.mean_ms)), number(ms(node.p99_ms)),
    number(node.slowness === 1 ? "as others" : `${node.slowness.toFixed(1)} ×`, node.slowness >= 2 ? "slow" : ""),
    word(node.models.join(", ") || "any"), word([node.reason, node.emulated ? "emulated" : "", proof(node.proven, board.at_ms)].filter(Boolean).join("; ")),
  ]), "no node has reported");
  const hidden = board.nodes_total - board.nodes.length;
  text($("#nodes-more"), hidden > 0 ? `and ${count(hidden)} more, in order` : "");
}

let heardAt = Date.now(), newest = null;
function show(board) {
  heardAt = Date.now();
  if (board.pools.length) newest = board;
  document.body.classList.toggle("old", !board.pools.length);
  const old = newest && newest !== board;
  text($("#asof"), old ? `numbers of ${clock(newest.at_ms)}: old` : `as of ${clock(board.at_ms)}`);
  showConditions(board.conditions, board.at_ms);
  if (!board.pools.length) return;   // the conditions say why; what was last known stays, dimmed
  remember(board);
  board.pools.forEach((pool) => showPool(pool, board));
  showTiles(board);
  showTables(board);
}

function lost() {
  document.body.classList.add("old");
  text($("#asof"), newest ? `numbers of ${clock(newest.at_ms)}: old` : "no answer");
  showConditions([{
    level: "bad", name: "OverspillControlSilent", title: "Control does not answer: it is dead, or out of reach from here",
    meaning: `Requests go on: routers use what they last knew (stale), after 30 s they decide without knowing the fleet (blind): realtime to the GPU, the rest to the GPU or by key, at any cost. Nothing is lost, and this page comes back by itself.`,
    remedy: "Open the page of the worker that stands by, or start it again: `overspill control`",
    since_ms: heardAt, maybe_longer: false,
  }], Date.now());
}

function listen() {
  const source = new EventSource("board/stream");
  source.addEventListener("history", (event) => { past = JSON.parse(event.data); });
  source.addEventListener("board", (event) => show(JSON.parse(event.data)));
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000);   // else it tries again itself
  };
}
setInterval(() => { if (Date.now() - heardAt > SILENT_MS) lost(); }, 1000);
listen();
