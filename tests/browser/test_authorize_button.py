"""The Authorize button of the API document (`/docs`), from the click to a call with the token."""

import mimetypes
import re
from pathlib import Path

from playwright.sync_api import Browser, Route, expect

from tests.chromium import close_context
from tests.examples.programs import lines_of, started
from tests.programs import require_npm_package

PACKAGE = Path(__file__).parents[1] / "node_modules/swagger-ui-dist"


def from_the_package(route: Route) -> None:
    """What FastAPI's page loads from a content delivery network."""
    file = PACKAGE / route.request.url.rpartition("/")[2]
    kind = mimetypes.guess_type(file.name)[0] or "text/plain"
    route.fulfill(body=file.read_bytes() if file.exists() else b"", content_type=kind)


def test_a_person_authorizes_the_document_and_calls_the_api(chromium: Browser) -> None:
    require_npm_package("swagger-ui-dist")
    with started("examples.api") as process:
        told = "".join(lines_of(process, 4))
        [document] = re.findall(r"http://\S+/docs", told)
        page = chromium.new_page()
        page.route(re.compile(r"https://(cdn|fastapi)\."), from_the_package)
        page.goto(document)
        page.get_by_role("button", name="Authorize").first.click()
        dialog = page.locator(".dialog-ux")
        expect(dialog.locator("input[data-value='machines:write']")).to_be_checked()
        with page.expect_popup() as opened:
            dialog.get_by_role("button", name="Apply given OAuth2 credentials").click()
        opened.value.get_by_role("button", name=re.compile("Alice")).click()
        expect(dialog.get_by_role("button", name="Remove authorization")).to_be_visible()
        dialog.get_by_role("button", name="Close").last.click()
        operation = page.locator(".opblock-post")
        operation.locator(".opblock-summary").click()
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_placeholder("name").fill("one")
        operation.get_by_role("button", name="Execute").click()
        response = operation.locator(".live-responses-table")
        expect(response).to_contain_text("one, added by docs for alice")
        close_context(page.context)
