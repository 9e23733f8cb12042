// The fleet's page. What a device has said is only ever set as text; ages are of the collector's clock, not of this one's.
"use strict";

const element = (id) => document.getElementById(id);
const DAY = 86400, HOUR = 3600, MINUTE = 60;
let skew = 0; // the collector's clock less this browser's, in microseconds
let stream = null; // of overviews
let overview = null; // the last one
let shownKey = null; // of the device that is shown
let askedFor = null; // the device that the server is being asked for
let askAgain = false; // whether it has changed meanwhile
let deviceTimer = 0;
let acting = 0; // actions whose answer is shown
let lostAt = null; // since when there is no connection
let wordsTimer = 0;
const TILES = 12; // groups that are drawn until a person asks for all
let allTiles = false;
const accepted = []; // what a person here has answered
let tilesShown = "";
let first = 0; // how many devices stand before the window that is shown

function duration(us) {
  const seconds = Math.max(0, Math.round(us / 1e6));
  for (const [length, unit] of [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"]])
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  return `${seconds} s`;
}

const many = (number) => number.toLocaleString("en");
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

const clockTime = (us) => new Date(us / 1e3).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const presence = (device) =>
  device.next_at_us !== null
    ? made("span", `${device.presence}, next at ${clockTime(device.next_at_us)}`, device.presence)
    : device.presence_since_us === null
    ? made("span", device.presence, device.presence)
    : living("span", device.presence_since_us, device.presence, device.presence);
const total = (lost) => Object.values(lost).reduce((sum, each) => sum + each, 0);

function linked(label, key, className) {
  const link = made("a", label || key.slice(0, 8), className);
  link.href = `#${key}`;
  return link;
}

function row(device) {
  const one = made("tr"), head = made("th"), lost = total(device.lost);
  const clock = device.clock === "unsynchronised" ? made("small", " clock not synchronised", "unsynchronised") : "";
  const reasons = Object.keys(device.lost).map((each) => each.replaceAll("_", " ")).join(", ");
  head.scope = "row";
  head.append(linked(device.label, device.key), " ", made("small", `${device.label ? device.device : ""}${device.board ? " board" : ""}`.trim()));
  one.append(
    head,
    cell("", "", presence(device)),
    cell("newest", "number", living("span", device.newest_at_us), clock),
    cell("lag", "number", device.lag_seconds === null ? "–" : duration(device.lag_seconds * 1e6)),
    cell("waiting", `number ${device.waiting ? "waiting" : "nothing"}`, String(device.waiting), device.waiting ? made("small", ` ${device.waits_because}`) : ""),
    cell("missing", `number ${device.missing ? "waiting" : "nothing"}`, String(device.missing)),
    cell("lost", `number ${lost ? "lost" : "nothing"}`, String(lost), lost ? made("small", ` ${reasons}`) : ""),
    cell("series", `number ${device.alarms ? "lost" : ""}`, `${device.series}${device.left_out ? "+" : ""}`, device.alarms ? made("small", ` ${device.alarms} in alarm`) : ""),
    costCell(device.cost),
    cell("version", device.version ? "" : "nothing", device.version.split(";")[0] || "–"),
  );
  return one;
}

const outlookLook = { "used up": "lost", early: "waiting", low: "waiting" };
const budgetText = (cost) => `${bytes(cost.budget_bytes)}/${cost.period}`;

// What the link of a device has cost in the period of its budget, or else this month, as the device reports it.
function costCell(cost) {
  if (!cost) return cell("link", "number nothing", "–");
  if (cost.budget_bytes === null) return cell("link", "number", `${bytes(cost.month_bytes)}/month`);
  const spent = cost.period === "month" ? cost.month_bytes : cost.today_bytes, look = outlookLook[cost.outlook] || "";
  const text = `${spent === null ? "?" : bytes(spent)} of ${budgetText(cost)}`;
  return cell("link", `number ${look}`, text, look ? made("small", ` ${cost.outlook}`) : "");
}

function costWords(cost) {
  const words = [`${bytes(cost.month_bytes)} this month`];
  if (cost.today_bytes !== null) words.unshift(`${bytes(cost.today_bytes)} today`);
  if (cost.forecast_bytes !== null) words.push(`forecast ${bytes(cost.forecast_bytes)}`);
  if (cost.budget_bytes !== null) words.push(`budget ${budgetText(cost)}${cost.outlook ? ` (${cost.outlook})` : ""}`);
  return `${words.join(", ")}, reported `;
}

// What mends something: words, and the commands among them as such.
function hint(text) {
  const one = made("small", undefined, "hint");
  one.append(...text.split(/((?:covey|timedatectl) [^,;]+)/).map((part, place) => (place % 2 ? made("code", part) : part)));
  return one;
}

const severities = { urgent: "Urgent", warning: "Warning", notice: "Notice" };

function trouble(each) {
  const one = made("li", undefined, each.severity);
  one.append(made("strong", severities[each.severity], "severity"), " ");
  one.append(each.device ? linked(each.what, each.device) : counted(each));
  one.append(hint(each.hint));
  if (each.release && overview.acts) one.append(releaseButtons(overview.releases.find((other) => other.id === each.release)));
  return one;
}

// A problem that counts devices is a link to them.
function counted(each) {
  const [, condition] = /^covey fleet --only (\w+)$/.exec(each.hint) || [];
  if (!condition) return each.what;
  const link = made("a", each.what);
  link.href = `#?${new URLSearchParams({ state: condition })}`;
  return link;
}

// What changes something: a button that asks first, and says beside it what came of it.
function action(label, path, query, question, consequence) {
  const one = made("span", undefined, "action"), button = made("button", label), said = made("span");
  const request = `${path}?${new URLSearchParams(query)}`;
  button.type = "button";
  button.dataset.does = request;
  said.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    if (!(await isSure(question, consequence, label))) return;
    button.disabled = true;
    acting += 1;
    try {
      const found = await ask(request, "POST");
      said.textContent = ` ${found.state || "done"}`;
    } catch (error) {
      said.className = "lost";
      said.textContent = ` ${reason(error)}`;
    }
    button.disabled = false;
    setTimeout(() => (acting -= 1), 4000); // so long an answer stays readable, whatever the stream sends
  });
  one.append(button, said);
  return one;
}

function isSure(question, consequence, label) {
  const dialog = element("sure");
  element("sure-what").textContent = question;
  element("sure-why").textContent = consequence;
  element("sure-yes").textContent = label;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((found) => dialog.addEventListener("close", () => found(dialog.returnValue === "yes"), { once: true }));
}

function releaseButtons(each) {
  const one = made("span", undefined, "actions");
  if (!each) return one;
  const query = { release: each.id }, name = `${each.what} (${each.id.slice(0, 8)})`;
  if (each.state === "ready") one.append(action("Start next wave", "resume", query, `Start the next wave of ${name}?`, `${each.others} devices are left.`));
  if (each.state === "paused") one.append(action("Resume", "resume", query, `Resume ${name}?`, "Devices that have not started will start."));
  if (each.state === "stopped" || (each.state === "paused" && (each.failed || each.silent)))
    one.append(action("Accept failures", "resume", { ...query, accept: "yes" }, `Resume ${name} despite its failures?`, `${each.failed} failed and ${each.silent} silent devices no longer count.`));
  if (each.state === "under way") one.append(action("Pause", "pause", query, `Pause ${name}?`, "No further device starts."));
  if (["under way", "paused", "stopped", "ready", "awaits approval"].includes(each.state))
    one.append(action("Abort", "abort", query, `Abort ${name}?`, "Devices that have not started never start; trials are rolled back. This is final."));
  return one;
}

const called = (label, key) => (label ? `${label} (${key.slice(0, 8)})` : key.slice(0, 8));
const titled = (group) => group.title || group.group_id.slice(0, 8);

function invitation(each) {
  const one = made("li"), button = made("button", "Accept"), hours = Math.floor((each.expires_at_us - now()) / HOUR / 1e6);
  const shown = each.shown.map((member) => member.label || member.name).join(", ");
  const members = each.members === null ? "" : ` with ${each.members} members${shown ? `: ${shown}` : ""}`;
  button.hidden = !overview.acts;
  one.append(made("span", `${called(each.label, each.inviter)} invites to ${titled(each)}${members}; ${hours} h left `));
  button.addEventListener("click", () => accept(each, titled(each), one, button));
  one.append(button);
  return one;
}

async function accept({ group_id: group, inviter }, name, place, button) {
  button.disabled = true;
  try {
    await ask(`accept?${new URLSearchParams({ group, inviter })}`, "POST");
    accepted.push(`${name}: accepted, the agent joins the group`);
    place.replaceChildren(accepted.at(-1));
  } catch (error) {
    place.append(made("span", ` ${reason(error)}`, "lost"));
    button.disabled = false;
  }
}

function order(each) {
  const one = made("tr"), head = made("th"), outcomes = [];
  for (const [outcome, count] of Object.entries(each.outcomes))
    outcomes.push(made("span", `${count} ${outcome}`, ["failed", "refused", "reverted", "unknown"].includes(outcome) ? "lost" : ""), " ");
  head.scope = "row";
  head.append(orderLink(each.id, each.what), " ", made("small", each.groups.length > 1 ? `${each.id.slice(0, 8)}, ${each.groups.length} groups` : each.id.slice(0, 8)));
  if (!each.counts && overview.acts) head.append(" ", action("Approve", "approve", { order: each.id }, `Approve ${each.what}?`, "Your signature counts towards the operators that must sign."));
  one.append(
    head,
    cell("given", "", living("span", each.given_at_us)),
    cell("by", "", called(each.label, each.device)),
    cell("", each.counts ? "" : "waiting", each.counts ? "in force" : `not in force, signed by ${each.signed} of ${each.needed}`),
    cell("", "", bar(each.outcomes), ...outcomes),
  );
  return one;
}

// Results in proportion; the words beside it say the same.
function bar(outcomes) {
  const one = made("div", undefined, "bar");
  one.setAttribute("aria-hidden", "true");
  for (const [outcome, count] of Object.entries(outcomes)) {
    const part = made("span", undefined, outcomeLook[outcome] || "open");
    part.style.flexGrow = count;
    one.append(part);
  }
  return one;
}

const outcomeLook = { done: "good", applied: "good", active: "good", failed: "bad", refused: "bad", reverted: "bad", unknown: "bad" };
const releaseLook = { stopped: "lost", ready: "waiting", paused: "waiting", "awaits approval": "waiting" };

function release(each) {
  const one = made("tr"), head = made("th"), bad = releaseLook[each.state] || "";
  const counts = [`${each.done} of ${each.given} done`];
  if (each.failed) counts.push(`${each.failed} failed`);
  if (each.silent) counts.push(`${each.silent} silent`);
  if (each.others) counts.push(`${each.others} left`);
  head.scope = "row";
  head.append(orderLink(each.id, each.what), " ", made("small", each.id.slice(0, 8)));
  if (overview.acts) head.append(" ", releaseButtons(each));
  one.append(
    head,
    cell("begun", "", living("span", each.began_at_us)),
    cell("by", "", called(each.label, each.device)),
    cell("", bad, `${each.state}, wave ${each.wave} of ${each.waves}`),
    cell("", each.failed || each.silent ? "lost" : "", counts.join(", ")),
  );
  return one;
}

function bytes(size) {
  for (const [length, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (size >= length) return `${(size / length).toPrecision(3)} ${unit}`;
  return `${size} bytes`;
}

function file(each) {
  const one = made("tr"), head = made("th", each.name);
  const state = { requested: `${bytes(each.fetched)} so far`, here: "here" }[each.state] || each.state;
  head.scope = "row";
  head.append(" ", made("small", each.id.slice(0, 8)));
  one.append(
    head,
    cell("offered", "", living("span", each.offered_at_us)),
    cell("by", "", called(each.label, each.device)),
    cell("size", "number", bytes(each.size)),
    cell("here", each.state === "wrong" ? "lost" : "", state),
    cell("holders", "number", String(each.holders)),
  );
  return one;
}

// A group in one tile: how many of it are here, drawn and said; it narrows the list to the group.
// Which collectors take the readings of a group, the one of most members first.
function collectorWords({ collectors }) {
  if (!collectors.length) return "no collector";
  const names = collectors.map((each) => `${each.label || each.device} (${many(each.members)}${each.silent ? ", silent" : ""})`);
  return `readings to ${names.join(", ")}${collectors.length < 2 ? "; no other would take over" : ""}`;
}

// The relays in the order in which this device tries them; of a single group, which has no tile, its collectors.
function routes({ relays, groups }) {
  const words = relays.map((each) => `${each.url} (${each.state})`).join(", then "), parts = words ? [`Relay: ${words}`] : [];
  if (groups.length === 1) parts.push(collectorWords(groups[0]));
  return parts.join("; ");
}

function tile(group) {
  const one = made("li"), button = made("button", undefined, group.silent || group.lost ? "bad" : ""), share = made("meter");
  const words = [`${many(group.online)} of ${many(group.members)} online`];
  if (group.silent) words.push(`${many(group.silent)} silent`);
  if (group.lost) words.push(`${many(group.lost)} with losses`);
  if (group.waiting) words.push(`messages waiting for ${many(group.waiting)}`);
  words.push(collectorWords(group));
  button.type = "button";
  button.setAttribute("aria-pressed", String(element("group").value === group.group_id));
  share.max = group.members;
  share.value = group.online;
  share.setAttribute("aria-hidden", "true");
  button.append(made("strong", titled(group)), share, made("span", words.join(", ")));
  button.dataset.group = group.group_id;
  one.append(button);
  return one;
}

function showTiles(groups) {
  const sorted = groups.length < 2 ? [] : [...groups].sort((a, b) => b.silent + b.lost - a.silent - a.lost);
  const tiles = allTiles ? sorted : sorted.slice(0, TILES);
  const chosen = element("group").value, shown = JSON.stringify([tiles, chosen, sorted.length]);
  if (tilesShown === shown) return;
  const focused = document.activeElement?.dataset?.group;
  tilesShown = shown;
  element("tiles").replaceChildren(...tiles.map(tile));
  if (tiles.length < sorted.length) {
    const one = made("li"), button = made("button", `All ${sorted.length} groups`);
    button.type = "button";
    button.dataset.group = "all";
    one.append(button);
    element("tiles").append(one);
  }
  if (focused) element("tiles").querySelector(`[data-group="${CSS.escape(focused)}"]`)?.focus();
}

// A part of the page that is there only while it has something to show.
function section(name, list, entries, draw) {
  element(name).hidden = !entries.length;
  replace(element(list), entries.map(draw));
}

// Groups to choose from; who has chosen one stays with it.
function offerGroups(groups) {
  const chosen = chosenGroup(), names = groups.map((each) => [each.group_id, `${titled(each)}: ${each.online} of ${each.members} online`]);
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
  element("group").dataset.asked = "";
}

// Replace a list; the keyboard's focus stays on the same link or button.
function replace(list, rows) {
  if (acting || element("sure").open) return; // the button that was pressed stays, and what it says
  const place = (each) => each.getAttribute("href") || each.dataset.does;
  const focused = list.contains(document.activeElement) ? place(document.activeElement) : null;
  list.replaceChildren(...rows);
  if (focused) [...list.querySelectorAll("a, button")].find((each) => place(each) === focused)?.focus();
}

function showFleet(found) {
  overview = found;
  skew = found.now_us - Date.now() * 1000;
  if (element("summary").textContent !== found.summary) element("summary").textContent = found.summary;
  element("routes").textContent = routes(found);
  document.title = `${found.summary} – Covey`;
  const troubles = found.troubles.map(trouble);
  if (found.more_troubles) troubles.push(made("li", `and ${found.more_troubles} more: covey fleet --json`));
  replace(element("troubles"), troubles);
  offerGroups(found.groups);
  const invited = JSON.stringify(found.invitations);
  if (element("invitations").dataset.shown !== invited) {
    element("invitations").dataset.shown = invited;
    element("invitations").replaceChildren(...found.invitations.map(invitation), ...accepted.map((each) => made("li", each)));
  }
  section("orders", "given", found.orders, order);
  section("releases", "rolled", found.releases, release);
  section("files", "offered", found.files, file);
  if (found.releases.some((each) => !["finished", "aborted"].includes(each.state)) && !element("releases").dataset.opened) {
    element("releases").open = true;
    element("releases").dataset.opened = "once"; // who closes it is not told again
  }
  element("versions").replaceChildren(...found.versions.map((each) => made("li", `${each.version} on ${many(each.devices)}`)));
  showTiles(found.groups);
  replace(element("devices"), found.devices.map(row));
  first = found.first;
  const last = first + found.devices.length, parts = found.matching > found.devices.length;
  const more = parts ? `, showing ${many(first + 1)} to ${many(last)}` : "";
  const reading = found.is_read ? "" : "; reading the vault, last values follow";
  const vault = found.reads_vault ? reading : "; no last values: this device has no vault key";
  element("shown").textContent = `${many(found.matching)} of ${many(found.all)} devices${more}${vault}`;
  element("windows").hidden = !parts;
  element("before").disabled = !first;
  element("after").disabled = last >= found.matching;
  grow();
}

function connected() {
  lostAt = null;
  element("connection").hidden = true;
}

function disconnected(why) {
  lostAt = lostAt || new Date();
  element("connection").textContent = `${why} since ${lostAt.toLocaleTimeString()}: the page shows the state of that time`;
  element("connection").hidden = false;
}

// The one stream: of overviews that a query asks for, each of which is shown; it goes on by itself after a break.
function follow(query, show) {
  stream?.close();
  const own = new EventSource(`events?${new URLSearchParams(query)}`);
  stream = own;
  own.onopen = connected;
  own.onmessage = (event) => show(JSON.parse(event.data));
  own.onerror = () => {
    disconnected("no connection");
    if (own.readyState === EventSource.CLOSED) {
      ask("fleet").catch((error) => disconnected(reason(error))); // which says why, where a stream does not
      setTimeout(() => stream === own && follow(query, show), 5000);
    }
  };
}

// What the list is narrowed to; it is in the address, so that a bookmark and the Back button show the same devices.
const narrowing = () => ({ find: element("find").value, state: element("state").value, group: chosenGroup() });
const chosenGroup = () => element("group").value || element("group").dataset.asked || "";

function followFleet() {
  const chosen = Object.entries(narrowing()).filter(([name, value]) => value && !(name === "state" && value === "all"));
  const address = chosen.length ? `#?${new URLSearchParams(chosen)}` : "#";
  if (location.hash !== (address === "#" ? "" : address)) history.replaceState(null, "", address);
  follow({ ...narrowing(), first }, showFleet);
}

// Take the filter of an address, such as #?state=offline; an address without one keeps what a person has chosen.
function narrow(address) {
  if (!address.startsWith("?")) return;
  const query = new URLSearchParams(address.slice(1)), state = query.get("state") || "all";
  first = 0;
  element("find").value = query.get("find") || "";
  element("state").value = [...element("state").options].some((each) => each.value === state) ? state : "all";
  const group = query.get("group") || "";
  element("group").value = group;
  element("group").dataset.asked = element("group").value === group ? "" : group; // what to choose from comes later
}

// A device is asked for anew when its row has changed; what its row does not tell, from time to time.
function followDevice(key) {
  let shown = null;
  follow({ find: key }, (found) => {
    const row = JSON.stringify(found.devices);
    if (row !== shown) refreshDevice(key);
    shown = row;
  });
}

async function ask(path, method = "GET") {
  const answer = await fetch(path, { method });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const reason = (error) => (error instanceof TypeError ? "no connection" : error.message.trim());

// A number of an axis or a label, as short as it can be said.
const short = (number) => Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });

const colorOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Axes that people can read in both colour schemes: times below, and on the left numbers in the series' unit.
function axes(unit, small) {
  const common = { stroke: colorOf("--quiet"), grid: { stroke: colorOf("--line"), width: 1 }, ticks: { show: false } };
  const font = `${small ? 10 : 12}px system-ui, sans-serif`;
  return [
    { ...common, font, space: small ? 70 : 80, size: small ? 18 : 32, gap: 2 },
    {
      ...common, font, space: small ? 24 : 40, size: small ? 48 : 64, gap: 4,
      values: (_, ticks) => ticks.map((each, place) => (place === ticks.length - 1 && unit && !small ? `${short(each)} ${unit}` : short(each))),
    },
  ];
}

function plot(place, { points, factor, shown_unit: unit, name }) {
  const seconds = points[0].map((each) => each / 1e6), numbers = points[1].map((each) => each * factor);
  new uPlot({
    width: 288, height: 72, cursor: { show: false }, legend: { show: false }, select: { show: false },
    padding: [6, 6, 0, 0], axes: axes(unit, true),
    series: [{}, { stroke: colorOf("--link"), width: 1.5, points: { show: seconds.length < 3 } }],
  }, [seconds, numbers], place);
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${name}: ${numbers.length} points, ${short(least)} to ${short(most)} ${unit}`.trim());
}

// What the newest alarm of a series says, and since when; a change only has a time.
function alarmWords({ alarm, alarm_at_us: at }) {
  if (!alarm) return "";
  if (alarm === "raised") return living("small", at, " in alarm", "lost");
  const one = made("small", ` alarm ${alarm} `);
  one.append(living("span", at));
  return one;
}

function value(each) {
  const one = made("tr"), head = made("th"), place = made("div", undefined, "plot");
  const course = made("a", each.name);
  course.href = seriesLink(shownKey, each, "day");
  head.append(typeof each.value === "string" ? each.name : course);
  const shown = cell("", "number", each.shown);
  shown.title = `${each.value} ${each.unit}`.trim();
  const clock = each.clock === "unsynchronised" ? made("small", " clock not synchronised", "unsynchronised") : "";
  head.scope = "row";
  one.append(
    head,
    shown,
    cell("", "number", living("span", each.at_us), clock, alarmWords(each)),
    cell("", each.points.length ? "plotted" : "nothing", place),
  );
  if (each.points.length) plot(place, each);
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
  fact("Last seen", living("span", device.seen_at_us));
  fact("Groups", found.groups.map(titled).join(", "));
  if (device.landed_at_us !== null) fact("Stored", living("span", device.landed_at_us));
  if (device.lag_seconds !== null) fact("Lag", duration(device.lag_seconds * 1e6));
  if (device.version) fact("Version", device.version);
  if (device.alarms) fact("In alarm", made("span", `${device.alarm_series.join(", ")}${device.alarms > device.alarm_series.length ? ", …" : ""}`, "lost"));
  if (device.cost) fact("Link", costWords(device.cost), living("span", device.cost.at_us));
  if (device.clock) fact("Clock", made("span", device.clock === "unsynchronised" ? "not synchronised" : device.clock, device.clock));
  if (device.gateway) fact("Behind", linked(found.gateway.label, found.gateway.key));
  if (found.boards.length) fact("Boards", ...found.boards.flatMap((each, place) => [place ? ", " : "", linked(each.label, each.key)]));
  if (device.waiting) fact("Waiting on this device", `${device.waiting}, ${device.waits_because}, the oldest `, living("span", device.waiting_since_us));
  if (device.missing) fact("Missing", `${device.missing} in transit: later ones arrived first`);
  for (const [reason, count] of Object.entries(device.lost)) fact("Lost", `${count}: ${reason.replaceAll("_", " ")}`);
  element("facts").replaceChildren(...facts);
  replace(element("values"), found.values.map(value));
  if (found.acts) replace(element("doable"), deviceButtons(found));
  grow();
}

function deviceButtons({ device, groups, silenced_until_us: until }) {
  if (device.presence === "itself") return [];
  const name = device.label || device.device, query = { device: device.key };
  const quiet = until
    ? [action("Send alerts again", "silence", { ...query, hours: 0 }, `Send alerts about ${name} again?`, "")]
    : [4, 24, 168].map((hours) => action(`Silence ${hours === 168 ? "7 d" : `${hours} h`}`, "silence", { ...query, hours }, `Send no alerts about ${name}?`, "Its problems stay on this page, as notices."));
  const places = `${groups.length} ${groups.length === 1 ? "group" : "groups"}`;
  return [...quiet, action("Remove device", "remove", query, `Remove ${name} from ${places}?`, "Only a new invite readmits it. Its stored readings stay.")];
}

const SPANS = { hour: "Hour", day: "Day", week: "Week", month: "Month" };
const seriesLink = (key, { name, unit }, span) => `#${key}/${new URLSearchParams({ name, unit, span })}`;

// The course of one series: the last value of each interval in a band from the lowest to the highest.
function showSeries(found) {
  const [times, last, low, high] = found.points, unit = found.shown_unit, place = element("curve"), words = [];
  skew = found.now_us - Date.now() * 1000;
  place.replaceChildren();
  if (times.length) {
    const least = Math.min(...low), most = Math.max(...high), link = colorOf("--link");
    const thinned = last.map((each, at) => (found.thinned[at] ? each : null)), summed = found.thinned.filter(Boolean).length;
    new uPlot({
      width: place.clientWidth, height: 320, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      axes: axes(unit, false), bands: [{ series: [2, 3], fill: `${link}44` }],
      scales: { x: { range: () => [found.since_us / 1e6, found.now_us / 1e6] } },
      series: [
        {}, { stroke: link, width: 2, points: { show: times.length < 3 } },
        { stroke: `${link}88`, width: 1, points: { show: false } }, { stroke: `${link}88`, width: 1, points: { show: false } },
        { stroke: colorOf("--wait"), width: 0, points: { show: true, size: 6, fill: colorOf("--wait") } },
      ],
    }, [times.map((each) => each / 1e6), last, high, low, thinned], place);
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", `${found.name}: from ${short(least)} to ${short(most)}, last ${short(last.at(-1))} ${unit}`.trim());
    words.push(`lowest ${short(least)}, highest ${short(most)}, last ${short(last.at(-1))} ${unit}`.trim());
    if (summed) words.push(`${summed} of ${times.length} points are marked: summaries stand for their readings`);
  } else words.push("no readings in this time");
  if (found.read_from_us > found.since_us) words.push(`read back to ${new Date(found.read_from_us / 1e3).toLocaleString()} only; for all of it: covey graph`);
  element("curve-words").textContent = words.join("; ");
}

function openSeries(key, query) {
  const name = query.get("name") || "", unit = query.get("unit") || "", span = SPANS[query.get("span")] ? query.get("span") : "day";
  const shown = location.hash, label = overview?.devices.find((each) => each.key === key)?.label;
  element("of-device").href = `#${key}`;
  element("of-device").textContent = label || key.slice(0, 8);
  element("series-name").textContent = name;
  document.title = `${name} – Covey`;
  element("spans").replaceChildren(...Object.entries(SPANS).map(([each, word]) => {
    const link = made("a", word);
    link.href = seriesLink(key, { name, unit }, each);
    if (each === span) link.setAttribute("aria-current", "true");
    return link;
  }));
  element("series-name").focus();
  element("curve").replaceChildren();
  element("curve").removeAttribute("role");
  element("curve").removeAttribute("aria-label");
  element("curve-words").textContent = "…";
  const load = async () => {
    try {
      const found = await ask(`series?${new URLSearchParams({ key, name, unit, span })}`);
      if (location.hash !== shown) return;
      showSeries(found);
      connected();
    } catch (error) {
      if (location.hash !== shown) return;
      disconnected(reason(error));
    }
    setTimeout(() => location.hash === shown && load(), 10000);
  };
  load();
}

// Where the readings are, from the device to the vault: a box each.
function showCustody(device, held) {
  const box = (head, className, ...content) => {
    const one = made("li", undefined, className);
    one.append(made("strong", head), made("br"), ...content);
    return one;
  };
  const boxes = [box("On the device", "", "only the device knows how many; last seen ", living("span", device.seen_at_us))];
  if (device.gateway) boxes.push(box("On its gateway", "", linked("", device.gateway), " carries them"));
  if (device.presence === "itself") boxes.pop();
  else if (held.missing) boxes.push(box("In transit", "waiting", `${held.missing} not arrived`));
  const landing = [`${held.landing} not in the vault yet`];
  if (held.landing) landing.push(", the oldest ", living("span", held.landing_since_us));
  boxes.push(box("Here", held.landing ? "waiting" : "", ...landing));
  if (device.landed_at_us !== null) boxes.push(box("In the vault", "online", "up to the reading of ", living("span", device.newest_at_us), ", held since ", living("span", device.landed_at_us)));
  if (total(device.lost)) boxes.push(box("Lost", "lost", `${total(device.lost)}, as the device reports`));
  element("custody").replaceChildren(...boxes);
}

function showOutbox(found) {
  element("held").hidden = !found.outbox.length;
  element("outbox").replaceChildren(...found.outbox.map((each) => {
    const one = made("li", `${each.kind}, ${bytes(each.size)}, `);
    one.append(living("span", each.queued_at_us));
    return one;
  }));
}

function showStory(found) {
  element("story").replaceChildren(...found.story.map((each) => {
    const one = made("li"), at = living("time", each.at_us);
    at.dateTime = new Date(each.at_us / 1000).toISOString();
    at.title = new Date(each.at_us / 1000).toLocaleString();
    one.append(at, " ", each.what);
    return one;
  }));
  if (!found.story.length) element("story").append(made("li", "no known events", "nothing"));
}

async function refreshDevice(key) {
  if (askedFor === key) {
    askAgain = true;
    return;
  }
  askedFor = key;
  askAgain = false;
  try {
    const query = new URLSearchParams({ key });
    const [found, known] = await Promise.all([ask(`device?${query}`), ask(`story?${query}`)]);
    if (shownKey === key) {
      showDevice(found);
      showCustody(found.device, known.custody);
      showOutbox(known);
      showStory(known);
      grow();
      connected();
    }
  } catch (error) {
    if (shownKey === key) disconnected(reason(error));
  }
  if (askedFor === key) askedFor = null;
  if (shownKey !== key) return;
  clearTimeout(deviceTimer);
  if (askAgain) refreshDevice(key);
  else deviceTimer = setTimeout(() => shownKey === key && refreshDevice(key), 10000);
}

function route() {
  clearTimeout(wordsTimer); // a word typed just before a person follows a link must not lead back to the list
  const address = location.hash.slice(1), [key, course] = address.startsWith("?") ? [""] : address.split("/", 2);
  narrow(address);
  shownKey = course === undefined && key ? key : null;
  const ordered = key === "order" && course !== undefined;
  element("order").hidden = !ordered;
  element("fleet").hidden = Boolean(key);
  element("device").hidden = !shownKey;
  element("series").hidden = ordered || course === undefined;
  if (course !== undefined) {
    stream?.close();
    stream = null;
    const query = new URLSearchParams(course);
    if (ordered) openOrder(query);
    else openSeries(key, query);
  } else if (key) {
    element("doable").replaceChildren();
    for (const id of ["facts", "custody", "values", "outbox", "story"]) element(id).replaceChildren();
    element("name").textContent = overview?.devices.find((each) => each.key === key)?.label || key.slice(0, 8);
    element("name").focus(); // a screen reader says it at once, whenever the rest comes
    refreshDevice(key);
    followDevice(key);
  } else followFleet();
}

function turnTo(place) {
  first = place;
  followFleet();
}

function leaf(place) {
  turnTo(place);
  element("shown").scrollIntoView();
}

element("filter").addEventListener("input", () => {
  element("group").dataset.asked = "";
  clearTimeout(wordsTimer);
  wordsTimer = setTimeout(() => turnTo(0), 200);
});
element("tiles").addEventListener("click", (event) => {
  const group = event.target.closest("button")?.dataset.group;
  if (!group) return;
  if (group === "all") {
    allTiles = true;
    return showTiles(overview.groups);
  }
  element("group").value = chosenGroup() === group ? "" : group;
  element("group").dataset.asked = "";
  turnTo(0);
});
element("before").addEventListener("click", () => leaf(Math.max(0, first - overview.devices.length)));
element("after").addEventListener("click", () => leaf(first + overview.devices.length));
element("filter").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", route);
setInterval(grow, 1000);
addEventListener("DOMContentLoaded", route);
