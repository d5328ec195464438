"""Terminals in Chromium: keys, pastes, the alternate screen, sizes, and pages without them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from examples.console.hosted import HostedMonitor
from tests.chromium import profile, violations
from tests.console.in_chromium.pages import alice_at, complaints_of, press
from tests.console.running import RunningConsole, hosting_console, signed_in
from tests.programs import require_terminals

ROWS = ".xterm-rows"
PASTE = """text => {
  const clipboardData = new DataTransfer()
  clipboardData.setData('text/plain', text)
  const event = new ClipboardEvent('paste', { clipboardData, cancelable: true, bubbles: true })
  document.querySelector('.xterm-helper-textarea').dispatchEvent(event)
}"""


@pytest.fixture(scope="module")
def host() -> Iterator[RunningConsole]:
    with hosting_console(simulated_agent=True) as console:
        yield console


@pytest.fixture
def desk(chromium: Browser, host: RunningConsole) -> Iterator[Page]:
    """Alice at a console with a machine that runs."""
    require_terminals()
    with alice_at(chromium, host) as page:
        complaints = complaints_of(page.context)
        yield page
    assert complaints == []


def write(host: RunningConsole, data: bytes) -> None:
    """Output of the guest."""
    machine = host.host.get("demo")
    assert isinstance(machine, HostedMonitor)
    machine.feed.add(data)


def test_what_is_typed_and_pasted_reaches_the_guest(desk: Page) -> None:
    desk.goto("/machines/demo/console")
    screen = desk.get_by_role("textbox", name="Screen of the guest")
    screen.focus()
    desk.keyboard.type("vz")
    expect(desk.locator(ROWS)).to_contain_text("guest hears z")
    desk.keyboard.press("Tab")
    expect(screen).to_be_focused()
    desk.evaluate(PASTE, "PQ")
    expect(desk.locator(ROWS)).to_contain_text("guest hears Q")
    assert violations(desk) == []
    desk.keyboard.press("Shift+Tab")
    expect(screen).not_to_be_focused()


def test_a_phone_types_with_its_keyboard_and_has_buttons_for_other_keys(
    chromium: Browser, host: RunningConsole
) -> None:
    """The keyboard of a phone composes words, and presses no keys."""
    require_terminals()
    size = ViewportSize(width=390, height=844)
    with alice_at(chromium, host, viewport=size, has_touch=True, is_mobile=True) as phone:
        phone.goto("/machines/demo/console")
        phone.tap(".xterm")
        expect(phone.get_by_role("textbox", name="Screen of the guest")).to_be_focused()
        keyboard = phone.context.new_cdp_session(phone)
        word = {"text": "k", "selectionStart": 1, "selectionEnd": 1}
        keyboard.send("Input.imeSetComposition", word)
        keyboard.send("Input.insertText", {"text": "k"})
        expect(phone.locator(ROWS)).to_contain_text("guest hears k")
        texts = sent(phone)
        phone.get_by_role("button", name="Ctrl+C").tap()
        expect(phone.locator("#line")).to_be_focused()
        assert len(texts) == 1


def sent(desk: Page) -> list[str]:
    """What the page types for the guest from now on."""
    texts: list[str] = []
    desk.on(
        "request",
        lambda request: (
            texts.append((request.post_data_json or {}).get("text", ""))
            if request.url.endswith("/console/input")
            else None
        ),
    )
    return texts


def test_keys_of_full_screen_programs_and_brackets_around_pastes(
    desk: Page, host: RunningConsole
) -> None:
    desk.goto("/machines/demo/console")
    desk.get_by_role("textbox", name="Screen of the guest").focus()
    write(host, b"\x1b[?2004h\x1b[?1h ready-for-pastes ")
    expect(desk.locator(ROWS)).to_contain_text("ready-for-pastes")
    texts = sent(desk)
    desk.keyboard.press("F5")
    desk.keyboard.press("ArrowUp")
    long = "word " * 500
    with desk.expect_request(lambda request: "%1B%5B201%7E" in (request.post_data or "")):
        desk.evaluate(PASTE, long)
    assert "".join(texts) == f"\x1b[15~\x1bOA\x1b[200~{long}\x1b[201~"


def test_the_screen_comes_back_after_the_alternate_one(desk: Page, host: RunningConsole) -> None:
    desk.goto("/machines/demo/console")
    write(host, b"\r\nbefore-the-editor\r\n\x1b[?1049h\x1b[H\x1b[2Jinside-the-editor")
    expect(desk.locator(ROWS)).to_contain_text("inside-the-editor")
    expect(desk.locator(ROWS)).not_to_contain_text("before-the-editor")
    write(host, b"\x1b[?1049l")
    expect(desk.locator(ROWS)).to_contain_text("before-the-editor")
    expect(desk.locator(ROWS)).not_to_contain_text("inside-the-editor")


def test_what_has_scrolled_away_can_be_scrolled_back(desk: Page, host: RunningConsole) -> None:
    desk.goto("/machines/demo/console")
    lines = b"".join(b"line-%03d\r\n" % number for number in range(200))
    write(host, lines)
    expect(desk.locator(ROWS)).to_contain_text("line-199")
    desk.locator(".xterm").hover()
    desk.mouse.wheel(0, -100_000)
    expect(desk.locator(ROWS)).not_to_contain_text("line-199")


def test_a_terminal_of_the_agent_learns_its_size_and_survives_a_reload(desk: Page) -> None:
    desk.goto("/machines/demo/guest")
    press(desk, "Open a terminal")
    screen = desk.get_by_role("textbox", name="Screen of the guest")
    screen.focus()
    desk.keyboard.type("echo left=$((6*7)); stty size\n")
    expect(desk.locator(ROWS)).to_contain_text("left=42")
    columns = desk.evaluate("terminals[0].cols")
    assert columns != 80
    expect(desk.locator(ROWS)).to_contain_text(f" {columns}")
    desk.reload()
    expect(desk.locator(ROWS)).to_contain_text("left=42")
    assert violations(desk) == []
    desk.get_by_role("textbox", name="Screen of the guest").focus()
    desk.keyboard.type("exit\n")
    expect(desk.locator(ROWS)).to_contain_text("[the end]")


def test_a_file_that_is_dropped_is_the_one_that_is_written(
    desk: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("guest")
    desk.goto("/machines/demo/guest")
    desk.get_by_label("Write to the guest").fill(f"{folder}/")
    desk.locator("form.drop").first.evaluate(
        """form => {
          const dataTransfer = new DataTransfer()
          dataTransfer.items.add(new File(['dropped'], 'dropped.txt'))
          const options = { dataTransfer, bubbles: true, cancelable: true }
          form.dispatchEvent(new DragEvent('drop', options))
        }"""
    )
    press(desk, "Write")
    expect(desk.get_by_role("status")).to_have_text("The file is in the guest.")
    assert (folder / "dropped.txt").read_text() == "dropped"
    desk.set_viewport_size({"width": 390, "height": 900})  # of a phone
    edges = "elements => elements.map(element => element.getBoundingClientRect().right)"
    card = desk.get_by_role("region", name="Files")
    assert max(card.locator("*").evaluate_all(edges)) <= max(card.evaluate_all(edges))


def test_without_script_the_screen_is_in_the_page(chromium: Browser, host: RunningConsole) -> None:
    with signed_in(host) as alice:
        alice.open_until("Login Service", "/machines/demo/console/log")
    write(host, b"\r\nwritten without script")
    with profile(chromium, base_url=host.url, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto("/")
        page.click("button[value=alice]")
        page.goto("/machines/demo/console")
        expect(page.locator("#screen")).to_contain_text("written without script")
