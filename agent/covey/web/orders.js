// An order or a release on a time line: what devices reported when, wave by wave. It uses what page.js has.
"use strict";

const LINE_SPANS = { all: "All", hour: "Hour", day: "Day", week: "Week" };
const SPAN_US = { hour: HOUR * 1e6, day: DAY * 1e6, week: 7 * DAY * 1e6 };
const HEIGHT = 100; // of the drawing, in its own units; one interval is 10 wide

const lineLink = (id, span, from) => `#order/${new URLSearchParams(from ? { id, span, from } : { id, span })}`;
const timeText = (us) => new Date(us / 1e3).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

function orderLink(id, text) {
  const link = made("a", text);
  link.href = lineLink(id, "all");
  return link;
}

function drawn(tag, attributes, className) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  if (className) one.setAttribute("class", className);
  return one;
}

// A column for each interval, failures on top, and a line where a wave was given.
function drawLine(found) {
  const most = Math.max(1, ...found.good.map((each, place) => each + found.bad[place])), width = 10 * found.good.length;
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const done = found.good.reduce((sum, each) => sum + each, 0), failed = found.bad.reduce((sum, each) => sum + each, 0);
  found.good.forEach((good, place) => {
    const high = (good / most) * HEIGHT, higher = (found.bad[place] / most) * HEIGHT;
    if (good) picture.append(drawn("rect", { x: 10 * place + 1, y: HEIGHT - high, width: 8, height: high }, "good"));
    if (higher) picture.append(drawn("rect", { x: 10 * place + 1, y: HEIGHT - high - higher, width: 8, height: higher }, "bad"));
  });
  for (const wave of found.waves) {
    const x = (10 * (wave.given_at_us - found.since_us)) / found.step_us;
    if (x >= 0 && x <= width) picture.append(drawn("line", { x1: x, x2: x, y1: 0, y2: HEIGHT }, "wave"));
  }
  picture.setAttribute("aria-label", `${many(done)} done and ${many(failed)} failed from ${timeText(found.since_us)} to ${timeText(found.until_us)}, at most ${many(most)} in ${duration(found.step_us)}`);
  element("line").replaceChildren(picture);
  const times = [found.since_us, (found.since_us + found.until_us) / 2, found.until_us];
  element("line-times").replaceChildren(...times.map((each) => made("span", timeText(each))));
  element("line-legend").textContent = `Each column is ${duration(found.step_us)}, the highest ${many(most)} results. Failures are on top. A dashed line begins a wave.`;
}

function outcomeWords(outcomes) {
  return Object.entries(outcomes).flatMap(([outcome, count]) => [made("span", `${many(count)} ${outcome}`, outcomeLook[outcome] === "bad" ? "lost" : ""), " "]);
}

function waveRow(wave) {
  const one = made("tr"), head = made("th", `Wave ${wave.number}`);
  head.scope = "row";
  one.append(
    head,
    cell("given", "", living("span", wave.given_at_us)),
    cell("devices", "number", many(wave.devices)),
    cell("", "", bar(wave.outcomes), ...outcomeWords(wave.outcomes)),
    cell("last", wave.last_at_us === null ? "nothing" : "", wave.last_at_us === null ? "–" : living("span", wave.last_at_us)),
  );
  return one;
}

function resultRow(each) {
  const one = made("tr"), head = made("th"), at = living("time", each.at_us);
  head.scope = "row";
  head.append(linked(each.label, each.device));
  at.title = new Date(each.at_us / 1e3).toLocaleString();
  one.append(
    head,
    cell("", outcomeLook[each.outcome] === "bad" ? "lost" : "", each.outcome),
    cell("reported", "", at),
    cell("", each.why ? "" : "nothing", each.why || "–"),
  );
  return one;
}

function intervalRow(found, place) {
  const one = made("tr"), head = made("th", timeText(found.since_us + place * found.step_us));
  head.scope = "row";
  one.append(head, cell("done", "number", many(found.good[place])), cell("failed", "number", many(found.bad[place])));
  return one;
}

function showOrder(found, span) {
  skew = found.now_us - Date.now() * 1000;
  const reported = Object.values(found.outcomes).reduce((sum, each) => sum + each, 0);
  element("order-name").textContent = found.what;
  document.title = `${found.what} – Covey`;
  const words = [`given by ${found.by} on ${timeText(found.given_at_us)}`];
  if (found.groups > 1) words.push(`in ${found.groups} groups`);
  if (!found.counts) words.push("not in force yet");
  words.push(found.reports ? `${many(reported)} of ${many(found.devices)} devices reported` : "devices do not report when they applied a setting: covey setting diff");
  if (found.before) words.push(`${many(found.before)} of them before this period`);
  element("order-words").textContent = words.join(", ");
  for (const id of ["line", "line-times", "line-legend", "waves"]) element(id).hidden = !found.reports;
  if (found.reports) drawLine(found);
  replace(element("waved"), found.waves.map(waveRow));
  section("failures", "failed", found.failures, resultRow);
  section("arrivals", "arrived", found.newest, resultRow);
  section("intervals", "counted", found.good.map((each, place) => (each || found.bad[place] ? place : -1)).filter((place) => place >= 0), (place) => intervalRow(found, place));
  showTurns(found, span);
  grow();
}

// Links to the time before and after the one that is shown.
function showTurns(found, span) {
  const turns = [];
  const turn = (word, from) => {
    const link = made("a", word);
    link.href = lineLink(found.id, span, from);
    turns.push(link);
  };
  if (SPAN_US[span] && found.since_us > found.given_at_us) turn("Earlier", Math.max(found.given_at_us, found.since_us - SPAN_US[span]));
  if (SPAN_US[span] && found.until_us < found.now_us) turn("Later", found.until_us);
  replace(element("order-turns"), turns);
  element("order-turns").hidden = !turns.length;
}

function openOrder(query) {
  const id = query.get("id") || "", span = LINE_SPANS[query.get("span")] ? query.get("span") : "all", shown = location.hash;
  element("order-name").textContent = id.slice(0, 8);
  element("order-words").textContent = "…";
  element("order-spans").replaceChildren(...Object.entries(LINE_SPANS).map(([each, word]) => {
    const link = made("a", word);
    link.href = lineLink(id, each);
    if (each === span) link.setAttribute("aria-current", "true");
    return link;
  }));
  for (const part of ["line", "line-times", "line-legend", "order-turns", "waved", "failed", "arrived", "counted"]) element(part).replaceChildren();
  for (const part of ["failures", "arrivals", "intervals"]) element(part).hidden = true;
  element("order-name").focus();
  const load = async () => {
    const began = performance.now();
    try {
      const found = await ask(`order?${query}`);
      if (location.hash !== shown) return;
      showOrder(found, span);
      connected();
    } catch (error) {
      if (location.hash !== shown) return;
      disconnected(reason(error));
    }
    const rest = Math.max(5000, 5 * (performance.now() - began)); // a large order is read for at most a sixth of the time
    setTimeout(() => location.hash === shown && load(), rest);
  };
  load();
}
