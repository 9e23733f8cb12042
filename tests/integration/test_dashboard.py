"""`covey dashboard` in a real browser: what a person sees, reaches with the keyboard, and is told when it breaks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, HttpCredentials, Page, Route, expect
from playwright.sync_api import Error as BrowserError

from covey.app.device.device import open_device
from covey.app.fleet.page import serve_page
from covey.app.fleet.silences import silenced
from covey.core.history.orders import Obeying
from covey.core.ids import GroupId, Incarnation
from covey.core.pairing.pending import GroupRequest
from covey.core.wire.sequences import SequenceSet
from tests.browser import is_readable, is_readable_by_day_and_night
from tests.collected_fleet import CollectedFleet
from tests.integration.certificates import make_certificate
from tests.integration.gateway import Gateway
from tests.spark.fleet import BOOTED_US, Given
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.processes

_HOSTILE = "<img src=x onerror=document.title='run'>"
_COUNT = 40
_SUMMARY = re.compile(
    "38 online, 2 silent since [0-9]{2}:[0-9]{2},( [0-9]+ messages? waiting on this device,)? nothing lost"
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> CollectedFleet:
    return CollectedFleet(tmp_path_factory.mktemp("fleet"), _COUNT)


@pytest.fixture
def served(fleet: CollectedFleet) -> Iterator[Gateway]:
    """The hub; whatever serves its page is killed at the end."""
    yield fleet.hub
    fleet.hub.kill()


Opens = Callable[..., Page]


@pytest.fixture
def opens(browser: Browser, served: Gateway) -> Iterator[Opens]:
    """Serve the page, and open it in a browser as this; what the browser complains of fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_page(**kind: Any) -> Page:
        contexts.append(browser.new_context(**kind))
        contexts[-1].set_default_timeout(GUARD_S * 1_000)
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(_link(served, "127.0.0.1:0"))
        expect(page.locator("#devices tr")).to_have_count(_COUNT + 1)
        return page

    yield open_page
    for each in contexts:
        each.close()
    assert [each for each in complaints if "Failed to load resource" not in each] == []


def _link(hub: Gateway, listen: str) -> str:
    """Serve the page there, and return the link that was printed."""
    hub.log.unlink(missing_ok=True)
    hub.start("dashboard", "--listen", listen, "--interval", "0.2")
    wait_until(lambda: hub.log.exists() and "?key=" in hub.log.read_text(), "the link is printed")
    return hub.log.read_text().split()[0]


def test_a_person_sees_the_fleet_and_a_device(opens: Opens) -> None:
    page = opens()
    expect(page.locator("#summary")).to_have_text(_SUMMARY)
    expect(page.locator("#devices tr").first).to_contain_text("field-00007")
    expect(page.locator("#devices tr").first).to_contain_text("silent for 1 h")
    assert "?key=" not in page.url
    expect(page.locator("#troubles li").first).to_have_class("urgent")
    expect(page.locator("#troubles li").first).to_contain_text("Urgent this device: the agent is not running")
    page.get_by_label("Find").fill("00013")
    expect(page.locator("#devices tr")).to_have_count(1)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/device?*", hold)
    page.get_by_role("link", name="field-00013").press("Enter")
    expect(page.locator("#name")).to_have_text("field-00013")  # read out at once, whenever the rest comes
    expect(page.locator("#name")).to_be_focused()
    while held:
        held.pop().continue_()
    page.unroute("**/device?*")
    expect(page.locator("#values tr")).to_have_count(4)
    expect(page.get_by_role("img", name="air:temperature: 8 points")).to_be_visible()
    expect(page.locator("#values canvas")).to_have_count(4)
    expect(page.locator("#values")).to_contain_text("3.9 V")
    expect(page.locator("#values")).to_contain_text(re.compile("[0-9.]+ °C"))
    expect(page.locator("#values td[title$=' Cel']")).to_have_count(1)
    page.go_back()
    expect(page.locator("#devices tr")).to_have_count(1)
    page.get_by_label("Find").fill("")
    page.get_by_label("Show").select_option("offline")
    expect(page.locator("#shown")).to_have_text(f"2 of {_COUNT + 1} devices")


def test_groups_orders_and_a_devices_story(opens: Opens, fleet: CollectedFleet, served: Gateway) -> None:
    served.ok("group", "profile", "--title", _HOSTILE)
    served.ok("group", "create", "--capability", "collector")
    [second] = {each["group_id"] for each in served.json("fleet")["groups"]} - {fleet.group_id}
    served.ok("config", "set", "operations.operators", served.json("key", "show")["signing_key"])
    served.ok("setting", "set", "app.mode", "winter", "--for", "all", "--group", fleet.group_id)
    page = opens()
    expect(page.get_by_label("Group")).to_contain_text(f"{_HOSTILE}: 39 of 41 online")
    page.get_by_label("Group").select_option(second)
    expect(page.locator("#devices tr")).to_have_count(1)
    page.get_by_label("Group").select_option("")
    page.get_by_text("Orders").press("Enter")
    expect(page.locator("#given tr")).to_have_count(1)
    expect(page.locator("#given")).to_contain_text("app.mode = winter for all")
    is_readable(page)
    page.get_by_label("Find").fill("00003")
    page.get_by_role("link", name="field-00003").press("Enter")
    expect(page.locator("#story")).to_contain_text(f"added to {_HOSTILE} by")
    expect(page.get_by_role("list", name="Where its readings are")).to_contain_text("In the vault")
    assert page.locator("#story img").count() == 0


def test_a_person_accepts_an_invitation(opens: Opens, fleet: CollectedFleet) -> None:
    inviter, now_us = fleet.authors[3].identity, time.time_ns() // 1000
    group_id = GroupId(b"\x07" * 32)
    with open_device(fleet.folder) as device, device.store.transaction():
        request = GroupRequest(group_id, inviter.keys, bytes(32), now_us + 7_200_000_000, now_us, None)
        device.store.requests.save(request)
    page = opens()
    invitations = page.get_by_role("list", name="Invitations")
    expect(invitations).to_contain_text("field-00003")
    expect(invitations).to_contain_text("invites to 07070707; 1 h left")
    is_readable(page)
    page.get_by_role("button", name="Accept").press("Enter")
    expect(invitations).to_contain_text("07070707: accepted, the agent joins the group")
    expect(page.get_by_role("button", name="Accept")).to_have_count(0)
    with open_device(fleet.folder) as device:
        assert [each.group_id for each in device.store.joins.pending()] == [group_id]


def test_everybody_can_read_it_on_a_telephone_too(opens: Opens) -> None:
    page = opens(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    is_readable_by_day_and_night(page)
    page.get_by_role("link", name="field-00003").first.tap()
    expect(page.locator("#values tr")).to_have_count(4)
    is_readable_by_day_and_night(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    is_readable_by_day_and_night(page)


def test_texts_of_devices_are_shown_as_text(opens: Opens, fleet: CollectedFleet) -> None:
    page, author, now_us = opens(), fleet.authors[0], time.time_ns() // 1000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("covey.core.telemetry.batch.MAXIMUM_NAME_BYTES", 2_000_000)
        endless = author.telemetry([("n" * 50_000, "", BOOTED_US, 1)], author.clock(wall_us=now_us))
    with open_device(fleet.folder) as device:
        fleet.collector.identity = device.node.identity
        said: list[Given] = [(_HOSTILE, "<b>", BOOTED_US, _HOSTILE), ("n" * 128, "", BOOTED_US, 1)]
        fleet.collector.land(author.telemetry(said, author.clock(wall_us=now_us)), endless, received_at_us=now_us)
    expect(page.locator("#troubles")).to_contain_text("the readings in 1 message of field-00000")
    expect(page.locator("#devices tr")).to_have_count(_COUNT + 1)
    page.goto(f"{page.url.partition('#')[0]}#{author.author}")
    expect(page.locator("#values tr")).to_have_count(6)
    expect(page.get_by_role("rowheader", name=_HOSTILE)).to_be_visible()
    is_readable(page)
    assert page.title().startswith("field-00000")
    assert page.locator("#values img").count() == 0
    page.goto(f"{page.url.partition('#')[0]}#0123")
    expect(page.locator("#connection")).to_contain_text("no such device")
    is_readable(page)


@pytest.mark.parametrize("how", [{"color_scheme": "light"}, {"color_scheme": "dark"}])
def test_a_fleet_of_nobody_is_readable_and_says_how_to_begin(
    browser: Browser, tmp_path: Path, how: dict[str, Any]
) -> None:
    alone = Gateway(tmp_path, "alone")
    context = browser.new_context(viewport={"width": 390, "height": 844}, **how)
    try:
        page = context.new_page()
        page.goto(_link(alone, "127.0.0.1:0"))
        expect(page.locator("#summary")).to_contain_text("no other device yet")
        expect(page.locator("#troubles")).to_contain_text("covey join CODE, or covey group create")
        is_readable(page)
    finally:
        context.close()
        alone.end()


def test_a_page_without_its_server_says_so_and_how_to_go_on(opens: Opens, served: Gateway) -> None:
    page = opens()
    expect(page.locator("#summary")).to_have_text(_SUMMARY)  # it has read the vault
    served.kill()
    expect(page.locator("#connection")).to_contain_text("no connection since")
    is_readable(page)
    expect(page.locator("#summary")).to_have_text(_SUMMARY)
    link = _link(served, page.url.removeprefix("http://").partition("/")[0])
    expect(page.locator("#connection")).to_contain_text("open the link that 'covey dashboard' printed")
    page.goto(link)
    expect(page.locator("#connection")).to_be_hidden()


def test_a_wall_elsewhere_comes_by_tls_and_a_password(browser: Browser, served: Gateway, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path / "authority", -1, 1)
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("a long enough password\n")
    served.log.unlink(missing_ok=True)
    files = ("--certificate", str(certificate), "--key", str(key), "--password-file", str(password))
    served.start("dashboard", "--listen", "0.0.0.0:0", "--interval", "0.2", *files)
    wait_until(lambda: served.log.exists() and "https://" in served.log.read_text(), "the address is printed")
    link = served.log.read_text().split()[0].replace("0.0.0.0", "localhost")
    assert "?key=" not in link
    who = HttpCredentials(username="wall", password="a long enough password")
    contexts = [
        browser.new_context(ignore_https_errors=True),
        browser.new_context(ignore_https_errors=True, http_credentials=who),
    ]
    stranger, page = (each.new_page() for each in contexts)
    with pytest.raises(BrowserError, match="ERR_INVALID_AUTH_CREDENTIALS"):
        stranger.goto(link)
    page.goto(link)
    expect(page.locator("#devices tr")).to_have_count(_COUNT + 1)
    expect(page.locator("#connection")).to_be_hidden()
    for each in contexts:
        each.close()


def test_mistakes_of_who_serves_it(fleet: CollectedFleet, tmp_path: Path) -> None:
    hub = fleet.hub
    assert "is reachable from other machines" in hub.fails("dashboard", "--listen", "0.0.0.0:0", code=2)
    for address in ("127.0.0.1", "hub:80", "127.0.0.1:x", "127.0.0.1:70000", ""):
        assert "is not an address" in hub.fails("dashboard", "--listen", address, code=2)
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("short")
    proxied = ("dashboard", "--listen", "0.0.0.0:0", "--proxy")
    assert "is not an IPv4 address" in hub.fails(*proxied, "supervisor", code=2)
    assert "the proxy asks" in hub.fails(*proxied, "172.30.32.2", "--password-file", str(password), code=2)
    assert "must not cross the network" in hub.fails("dashboard", "--password-file", str(password), code=2)
    certificate, key = make_certificate(tmp_path / "authority", -1, 1)
    tls = ("--certificate", str(certificate), "--key", str(key), "--password-file", str(password))
    assert "12 characters" in hub.fails("dashboard", *tls, code=78)
    password.write_text("long enough for a page")
    password.chmod(0o644)
    assert "hint: " in hub.fails("dashboard", *tls, code=78)


def test_roll_outs_files_versions_boards_and_what_became_of_messages(
    opens: Opens, fleet: CollectedFleet, served: Gateway, tmp_path: Path
) -> None:
    """Stands at the end: it leaves a loss behind."""
    (tmp_path / "model.bin").write_bytes(bytes(2_500))
    served.ok("config", "set", "operations.operators", served.json("key", "show")["signing_key"])
    with open_device(fleet.folder) as device, device.store.transaction():
        device.node.history.write(GroupId(bytes.fromhex(fleet.group_id)), Obeying(), device.now())
    words = ("--group", fleet.group_id, "--for", "hub", "--waves", "1,100%")
    served.covey("release", "create", str(tmp_path / "model.bin"), *words)  # which ends, as there is no relay
    gateway, board = fleet.authors[5], fleet.authors[6]
    now_us = time.time_ns() // 1000
    with open_device(fleet.folder) as device:
        fleet.collector.identity = device.node.identity
        clock = gateway.clock(wall_us=now_us)
        said = gateway.telemetry([("firmware", "", BOOTED_US, "covey 1.2; Debian")], clock)
        fleet.collector.land(said, gateway.loss(1, 3), received_at_us=now_us)
        with device.store.transaction():
            device.store.carriers.set(board.identity.signing_public, gateway.identity.signing_public)
            came = SequenceSet(3, ((6, 7), (9, 9)))
            device.store.received.set(gateway.identity.signing_public, Incarnation(bytes(8)), came)
            group_id = GroupId(bytes.fromhex(fleet.group_id))
            device.node.send_blob(group_id, b"x", device.now(), gateway.identity.signing_public)
    page = opens()
    expect(page.locator("#rolled tr")).to_have_count(1)
    expect(page.locator("#rolled")).to_contain_text("wave 1 of 2")
    page.get_by_text("Files").press("Enter")
    expect(page.locator("#offered tr")).to_contain_text(["model.bin"])
    expect(page.locator("#offered")).to_contain_text("2.50 kB")
    expect(page.get_by_role("list", name="Versions")).to_contain_text("covey 1.2 on 1")
    expect(page.locator("#devices tr", has_text="field-00005")).to_contain_text("3 outbox full")
    is_readable(page)
    page.get_by_label("Find").fill("00005")
    page.get_by_role("link", name="field-00005", exact=True).press("Enter")
    places = page.get_by_role("list", name="Where its readings are")
    for box in ("In transit3 not arrived", "In the vault", "Lost3, as the device reports"):
        expect(places).to_contain_text(box)
    expect(page.locator("#story")).to_contain_text("lost 3 messages: outbox full")
    expect(page.locator("#outbox")).to_contain_text("data, ")
    is_readable(page)
    page.get_by_role("link", name="field-00006").press("Enter")
    expect(page.locator("#facts")).to_contain_text("Behindfield-00005")


def test_a_series_by_hour_day_week_and_month(opens: Opens) -> None:
    page = opens(viewport={"width": 390, "height": 844})
    page.get_by_label("Find").fill("00013")
    page.get_by_role("link", name="field-00013").press("Enter")
    page.get_by_role("link", name="air:temperature").press("Enter")
    expect(page.locator("#series-name")).to_be_focused()
    expect(page.locator("#curve-words")).to_contain_text(re.compile("lowest [0-9.]+, highest [0-9.]+, last [0-9.]+ °C"))
    expect(page.get_by_role("img", name=re.compile("air:temperature: from"))).to_be_visible()
    is_readable(page)
    page.get_by_role("link", name="Month").press("Enter")
    expect(page.get_by_role("link", name="Month")).to_have_attribute("aria-current", "true")
    expect(page.locator("#curve canvas")).to_have_count(1)
    page.locator("#of-device").press("Enter")
    expect(page.locator("#values tr")).to_have_count(4)


def test_a_link_followed_while_a_word_is_being_typed_leads_where_it_says(opens: Opens) -> None:
    page = opens()
    page.clock.install()
    page.get_by_label("Find").fill("00013")
    page.get_by_role("link", name="field-00013").press("Enter")
    expect(page.locator("#name")).to_be_focused()
    address = page.url
    page.clock.run_for(1_000)
    assert page.url == address
    expect(page.locator("#name")).to_have_text("field-00013")


def test_a_device_is_silenced_and_stays_where_the_mode_demands_a_ban(
    opens: Opens, fleet: CollectedFleet, served: Gateway
) -> None:
    page = opens()
    page.get_by_label("Find").fill("00039")
    page.get_by_role("link", name="field-00039").press("Enter")
    page.get_by_role("button", name="Silence 4 h").press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Send no alerts about field-00039?")
    is_readable(page)
    page.get_by_role("button", name="Cancel").press("Enter")
    page.get_by_role("button", name="Silence 24 h").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Silence 24 h").press("Enter")
    expect(page.get_by_role("button", name="Send alerts again")).to_be_visible()
    with open_device(fleet.folder) as device:
        assert list(silenced(device)) == [fleet.authors[39].author]
    served.ok("alert", "silence", "field-00039", "--for", "0")
    page.get_by_role("button", name="Remove device").press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Remove field-00039 from 1 group?")
    page.get_by_role("dialog").get_by_role("button", name="Remove device").press("Enter")
    expect(page.locator("#doable")).to_contain_text("in this mode a member can be removed only by a ban")
    assert "field-00039" in served.ok("group", "members", "--group", fleet.group_id)


def test_actions_of_other_sites_and_of_a_read_only_page_are_refused(browser: Browser, fleet: CollectedFleet) -> None:
    for acts, code in ((True, 403), (False, 404)):
        served = serve_page(fleet.folder, "127.0.0.1:0", (None, None), None, None, 1, 0.2, lambda _: None, acts=acts)
        context = browser.new_context()
        try:
            page = context.new_page()
            page.goto(served.link)
            origin = "http://elsewhere.example" if acts else served.url.rstrip("/")
            path = f"{served.url}remove?device={fleet.authors[1].author}"
            assert context.request.post(path, headers={"Origin": origin}).status == code
            assert fleet.label(1) in fleet.hub.ok("group", "members", "--group", fleet.group_id)
        finally:
            context.close()
            served.close()
