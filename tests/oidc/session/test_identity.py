from __future__ import annotations

import pytest

from fastapi_oidc.session.identity import StandardIdentity


def test_the_last_source_that_has_a_claim_wins() -> None:
    identity = StandardIdentity.from_claims(
        "alice", {"name": "A", "email": "a@example.com"}, {"name": "Alice"}
    )
    assert identity == StandardIdentity(sub="alice", name="Alice", email="a@example.com")


def test_each_profile_claim_has_its_place() -> None:
    profile = {
        "name": "Alice",
        "email": "a@example.com",
        "email_verified": True,
        "preferred_username": "al",
        "picture": "https://example.com/a.png",
    }
    identity = StandardIdentity.from_claims("alice", {**profile, "nickname": "A"})
    assert identity.model_dump() == {"sub": "alice", **profile}


def test_the_subject_is_the_one_that_was_validated() -> None:
    assert StandardIdentity.from_claims("alice", {"sub": "mallory"}).sub == "alice"


@pytest.mark.parametrize("name", ["name", "email", "preferred_username", "picture"])
def test_a_claim_of_another_type_counts_as_absent(name: str) -> None:
    identity = StandardIdentity.from_claims("alice", {name: ["x"]})
    assert identity == StandardIdentity(sub="alice")


def test_email_verified_must_be_a_boolean() -> None:
    assert StandardIdentity.from_claims("alice", {"email_verified": "true"}).email_verified is None
    assert StandardIdentity.from_claims("alice", {"email_verified": True}).email_verified is True
