"""What hypothesis sends to the protocol: octets, JSON values and the oddest values of a claim."""

from __future__ import annotations

from hypothesis import strategies as st

from fastapi_oidc.protocol.json import JSON

texts = st.text(st.characters(exclude_categories=[]), max_size=40)
"""Any text, lone surrogates included."""

json_texts = st.text(max_size=40)
"""What JSON can hold: no lone surrogates."""

scalars = st.none() | st.booleans() | st.integers() | st.floats() | json_texts
json_values: st.SearchStrategy[JSON] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_texts, inner, max_size=4),
    max_leaves=12,
)

odd_values: st.SearchStrategy[JSON] = st.sampled_from(
    [None, True, False, 0, -1, 2**63, 10**400, 1e308, float("inf"), float("nan"), "", "123", " "]
).flatmap(lambda value: st.sampled_from([value, [value], [[value]], {"": value}, [], {}]))
"""Values of a claim that other libraries stumbled over."""

parameters = st.dictionaries(
    st.sampled_from(
        ["code", "state", "iss", "error", "error_description", "session_state", "logout_token"]
    )
    | texts,
    st.lists(texts | st.sampled_from(["state-1", "https://op.test/"]), max_size=3),
    max_size=6,
)
"""The parameters of a query or form."""
