"""No URL passes the rules that the HTTP client could not send a request to."""

from __future__ import annotations

import httpx
from hypothesis import example, given
from hypothesis import strategies as st

from fastapi_oidc.protocol.urls import fault_of_url

labels = st.text("abz09-_xn.%~!$&'()*+,;=[]:@", max_size=12) | st.sampled_from(
    ["xn--a", "xn--ls8h", "xn--mnchen-3ya", "xn--", "999", "1", "[::1]", "[v1.a]", "test"]
)
hosts = st.lists(labels, min_size=1, max_size=5).map(".".join)
paths = st.text(st.characters(max_codepoint=126), max_size=20)


@given(host=hosts, path=paths)
@example(host="xn--a.test", path="")
@example(host="999.1.1.1", path="")
@example(host="[::1]x", path="")
def test_a_url_that_passes_can_be_asked(host: str, path: str) -> None:
    url = f"https://{host}/{path}"
    if fault_of_url(url, allow_insecure_http=False) is None:
        request = httpx.Request("GET", url)
        assert request.url.host
        assert str(request.url.copy_with(query=None))
        assert request.headers["Host"]
