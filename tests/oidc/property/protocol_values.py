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
