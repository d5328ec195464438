"""Two instances in one application never mistake each other's cookies for their own."""

from __future__ import annotations

import string

from hypothesis import assume, given
from hypothesis import strategies as st

from fastapi_oidc.session.cookies import CookieChange, CookieNames

prefixes = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=20)
states = st.text(max_size=200)


@given(prefix=prefixes, secure=st.booleans(), state=states)
def test_every_name_is_a_cookie_name(prefix: str, secure: bool, state: str) -> None:
    names = CookieNames(prefix, secure)
    for name in (names.session, names.logout, names.transaction(state)):
        header = CookieChange(name=name, value="x", secure=secure).header_value()
        assert header.startswith(f"{name}=x; ")
        assert name.startswith("__Host-") or not secure or prefix.startswith("__Host-")


@given(prefix=prefixes, other=prefixes, state=states)
def test_two_prefixes_share_no_name(prefix: str, other: str, state: str) -> None:
    assume(prefix != other)
    one, two = CookieNames(prefix, secure=True), CookieNames(other, secure=True)
    assert not one.is_transaction(two.transaction(state))
    assert not {one.session, one.logout} & {two.session, two.logout, two.transaction(state)}


@given(prefix=prefixes, state=states, other=states)
def test_two_states_have_two_names(prefix: str, state: str, other: str) -> None:
    assume(state != other)
    names = CookieNames(prefix, secure=False)
    assert names.transaction(state) != names.transaction(other)
    assert names.is_transaction(names.transaction(state))
