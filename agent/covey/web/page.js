// The fleet's page. What a device has said is only ever set as text; ages are of the collector's clock, not of this one's.
"use strict";

const element = (id) => document.getElementById(id);
const DAY = 86400, HOUR = 3600, MINUTE = 60;
let skew = 0; // the collector's clock less this browser's, in microseconds
let stream = null; // of overviews, while the fleet is shown
let overview = null; // the last one
let shownKey = null; // of the device that is shown
let lostAt = null; // since when there is no connection
let wordsTimer = 0;

function duration(us) {
  const seconds = Math.max(0, Math.round(us / 1e6));
  for (const [length, unit] of [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"]])
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  return `${seconds} s`;
}

const now = () => Date.now() * 1000 + skew;
const age = (at) => (at === null ? "never" : `${duration(now() - at)} ago`);

function made(tag, text, className) {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  if (className) one.className = className;
  return one;
}

// An age that goes on by itself: the page writes it anew every second.
function living(tag, at, word, className) {
  const one = made(tag, undefined, className);
  one.dataset.at = at === null ? "" : at;
  one.dataset.word = word || "";
  return one;
}

function grow() {
  for (const one of document.querySelectorAll("[data-at]")) {
    const at = one.dataset.at === "" ? null : Number(one.dataset.at);
    const text = one.dataset.word ? `${one.dataset.word} for ${duration(now() - at)}` : age(at);
    if (one.textContent !== text) one.textContent = text;
  }
}

function cell(head, className, ...content) {
  const one = made("td", undefined, className);
  one.dataset.head = head;
  one.append(...content);
  return one;
}

const presence = (device) =>
  device.presence_since_us === null
    ? made("span", device.presence, device.presence)
    : living("span", device.presence_since_us, device.presence, device.presence);
const total = (lost) => Object.values(lost).reduce((sum, each) => sum + each, 0);

function row(device) {
  const one = made("tr"), head = made("th"), link = made("a", device.label || device.device), lost = total(device.lost);
  head.scope = "row";
  link.href = `#${device.key}`;
  head.append(link, " ", made("small", `${device.label ? device.device : ""}${device.board ? " board" : ""}`.trim()));
  one.append(
    head,
    cell("", "", presence(device)),
    cell("newest reading", "number", living("span", device.newest_at_us)),
    cell("lag", "number", device.lag_seconds === null ? "–" : duration(device.lag_seconds * 1e6)),
    cell("waiting", `number ${device.waiting ? "waiting" : ""}`, String(device.waiting)),
    cell("lost", `number ${lost ? "lost" : ""}`, String(lost)),
    cell("series", "number", `${device.series}${device.left_out ? "+" : ""}`),
  );
  return one;
}

function trouble(each) {
  const one = made("li");
  if (each.device) {
    const link = made("a", each.what);
    link.href = `#${each.device}`;
    one.append(link);
  } else one.append(each.what);
  one.append(made("code", each.hint));
  return one;
}

const called = (label, key) => (label ? `${label} (${key.slice(0, 8)})` : key.slice(0, 8));
const titled = (group) => group.title || group.group_id.slice(0, 8);

function invitation(each) {
  const one = made("li"), button = made("button", "Accept"), hours = Math.floor((each.expires_at_us - now()) / HOUR / 1e6);
  const shown = each.shown.map((member) => member.label || member.name).join(", ");
  const members = each.members === null ? "" : ` with ${each.members} members${shown ? `: ${shown}` : ""}`;
  one.append(made("span", `${called(each.label, each.inviter)} invites to ${titled(each)}${members}; ${hours} h left `));
  button.addEventListener("click", () => accept(each.group_id, one, button));
  one.append(button);
  return one;
}

async function accept(group, place, button) {
  button.disabled = true;
  try {
    await ask(`accept?${new URLSearchParams({ group })}`, "POST");
    place.replaceChildren("accepted: the agent asks to be let in");
  } catch (error) {
    place.append(made("span", ` ${reason(error)}`, "lost"));
    button.disabled = false;
  }
}

function order(each) {
  const one = made("tr"), head = made("th", each.what), outcomes = [];
  for (const [outcome, count] of Object.entries(each.outcomes))
    outcomes.push(made("span", `${count} ${outcome}`, ["failed", "refused", "unknown"].includes(outcome) ? "lost" : ""), " ");
  head.scope = "row";
  head.append(" ", made("small", each.id.slice(0, 8)));
  one.append(
    head,
    cell("given", "", living("span", each.given_at_us)),
    cell("by", "", called(each.label, each.device)),
    cell("signed", each.counts ? "" : "waiting", `${each.signed} of ${each.needed}${each.counts ? "" : ", counts for nothing here"}`),
    cell("", "", ...(outcomes.length ? outcomes : ["–"])),
  );
  return one;
}

// Groups to choose from; who has chosen one stays with it.
function offerGroups(groups) {
  const chosen = element("group").value, names = groups.map((each) => [each.group_id, `${titled(each)}: ${each.here} of ${each.members} here`]);
  const texts = [["", "all groups"], ...names];
  element("of-group").hidden = groups.length < 2;
  if (JSON.stringify(texts) === element("group").dataset.texts) return;
  element("group").dataset.texts = JSON.stringify(texts);
  element("group").replaceChildren(...texts.map(([id, text]) => {
    const one = made("option", text);
    one.value = id;
    return one;
  }));
  element("group").value = chosen;
}

// A new list in place of the old one; who was on a link with the keyboard stays on it.
function replace(list, rows) {
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  list.replaceChildren(...rows);
  if (focused) [...list.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
}

function showFleet(found) {
  overview = found;
  skew = found.now_us - Date.now() * 1000;
  if (element("summary").textContent !== found.summary) element("summary").textContent = found.summary;
  document.title = `${found.summary} – Covey`;
  const troubles = found.troubles.map(trouble);
  if (found.more_troubles) troubles.push(made("li", `and ${found.more_troubles} more: covey fleet --json`));
  replace(element("troubles"), troubles);
  offerGroups(found.groups);
  const invited = JSON.stringify(found.invitations);
  if (element("invitations").dataset.shown !== invited) {
    element("invitations").dataset.shown = invited;
    element("invitations").replaceChildren(...found.invitations.map(invitation));
  }
  element("orders").hidden = !found.orders.length;
  element("given").replaceChildren(...found.orders.map(order));
  replace(element("devices"), found.devices.map(row));
  const more = found.matching > found.devices.length ? `, the first ${found.devices.length} of them shown` : "";
  const vault = found.reads_vault ? "" : "; no last values: this device has no vault's keys";
  element("shown").textContent = `${found.matching} of ${found.all} devices${more}${vault}`;
  grow();
}

function connected() {
  lostAt = null;
  element("connection").hidden = true;
}

function disconnected(why) {
  lostAt = lostAt || new Date();
  element("connection").textContent = `${why} since ${lostAt.toLocaleTimeString()}: what you see is as of then`;
  element("connection").hidden = false;
}

function follow() {
  stream?.close();
  const query = new URLSearchParams({ find: element("find").value, state: element("state").value, group: element("group").value });
  stream = new EventSource(`events?${query}`);
  stream.onopen = connected;
  stream.onmessage = (event) => showFleet(JSON.parse(event.data));
  stream.onerror = () => {
    disconnected("no connection");
    if (stream.readyState === EventSource.CLOSED) {
      ask("fleet").catch((error) => disconnected(reason(error))); // which says why, where a stream does not
      setTimeout(() => shownKey || follow(), 5000);
    }
  };
}

async function ask(path, method = "GET") {
  const answer = await fetch(path, { method });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const reason = (error) => (error instanceof TypeError ? "no connection" : error.message.trim());

function plot(place, points, name) {
  const color = getComputedStyle(document.documentElement).getPropertyValue("--link");
  const seconds = points[0].map((each) => each / 1e6);
  new uPlot({
    width: 256, height: 48, cursor: { show: false }, legend: { show: false }, select: { show: false },
    padding: [4, 2, 4, 2],
    axes: [{ show: false }, { show: false }],
    series: [{}, { stroke: color, width: 1.5, points: { show: seconds.length < 3 } }],
  }, [seconds, points[1]], place);
  const [least, most] = [Math.min(...points[1]), Math.max(...points[1])];
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${name}: ${points[1].length} points, ${least} to ${most}`);
}

function value(each) {
  const one = made("tr"), head = made("th", each.name), place = made("div", undefined, "plot");
  const number = typeof each.value === "number" ? String(Number(each.value.toPrecision(9))) : String(each.value);
  const clock = each.clock === "unsynchronised" ? made("small", " clock not set", "unsynchronised") : "";
  head.scope = "row";
  one.append(
    head,
    cell("", "number", `${number} ${each.unit}`),
    cell("", "number", living("span", each.at_us), clock),
    cell("", "plotted", place),
  );
  if (each.points.length) plot(place, each.points, each.name);
  return one;
}

function showDevice(found) {
  const device = found.device, facts = [];
  skew = found.now_us - Date.now() * 1000;
  const fact = (name, ...content) => {
    const one = made("dd");
    one.append(...content);
    facts.push(made("dt", name), one);
  };
  element("name").textContent = device.label || device.device;
  document.title = `${device.label || device.device} – Covey`;
  fact("Key", device.key);
  fact("Presence", presence(device));
  fact("Heard", living("span", device.seen_at_us));
  fact("Groups", found.groups.map(titled).join(", "));
  if (device.landed_at_us !== null) fact("Landed", living("span", device.landed_at_us));
  if (device.lag_seconds !== null) fact("Lag", duration(device.lag_seconds * 1e6));
  if (device.waiting) fact("Waiting here", `${device.waiting}, the oldest `, living("span", device.waiting_since_us));
  for (const [reason, count] of Object.entries(device.lost)) fact("Lost", `${count}: ${reason.replaceAll("_", " ")}`);
  element("facts").replaceChildren(...facts);
  element("values").replaceChildren(...found.values.map(value));
  grow();
}

// Where the readings are, from the device to the vault: a box each.
function showCustody(device, held) {
  const box = (head, className, ...content) => {
    const one = made("li", undefined, className);
    one.append(made("strong", head), made("br"), ...content);
    return one;
  };
  const boxes = [box("On the device", "", "it alone knows; heard ", living("span", device.seen_at_us))];
  if (device.presence === "itself") boxes.pop();
  else if (held.missing) boxes.push(box("On the way", "waiting", `${held.missing} that have not come`));
  const landing = [`${held.landing} not in the vault yet`];
  if (held.landing) landing.push(", the oldest ", living("span", held.landing_since_us));
  boxes.push(box("Here", held.landing ? "waiting" : "", ...landing));
  if (device.landed_at_us !== null) boxes.push(box("In the vault", "online", "up to the reading of ", living("span", device.newest_at_us)));
  if (total(device.lost)) boxes.push(box("Lost", "lost", `${total(device.lost)}, as it has said itself`));
  element("custody").replaceChildren(...boxes);
}

function showStory(found) {
  element("story").replaceChildren(...found.story.map((each) => {
    const one = made("li"), at = living("time", each.at_us);
    at.dateTime = new Date(each.at_us / 1000).toISOString();
    at.title = new Date(each.at_us / 1000).toLocaleString();
    one.append(at, " ", each.what);
    return one;
  }));
  if (!found.story.length) element("story").append(made("li", "nothing is known of it here"));
}

async function refreshDevice(key) {
  try {
    const query = new URLSearchParams({ key });
    const [found, known] = await Promise.all([ask(`device?${query}`), ask(`story?${query}`)]);
    if (shownKey === key) {
      showDevice(found);
      showCustody(found.device, known.custody);
      showStory(known);
      grow();
    }
    connected();
  } catch (error) {
    if (shownKey === key) disconnected(reason(error));
  }
  if (shownKey === key) setTimeout(() => shownKey === key && refreshDevice(key), 5000);
}

function route() {
  const key = location.hash.slice(1);
  shownKey = key || null;
  element("fleet").hidden = Boolean(key);
  element("device").hidden = !key;
  if (key) {
    stream?.close();
    stream = null;
    for (const id of ["name", "facts", "custody", "values", "story"]) element(id).replaceChildren();
    element("name").focus();
    refreshDevice(key);
  } else follow();
}

element("filter").addEventListener("input", () => {
  clearTimeout(wordsTimer);
  wordsTimer = setTimeout(follow, 200);
});
element("filter").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", route);
setInterval(grow, 1000);
route();
