"""Which session a record of an ending covers, and the reason that it gives."""

from __future__ import annotations

from tests.oidc.session.examples import NOW, a_record, a_session

SID_1 = a_record(sid="op-session-1")
BOTH = a_record(sid="op-session-1", sub="alice")
ALICE = a_record(sid=None, sub="alice")

CASES = [
    ("sid: the same", SID_1, a_session(), True),
    ("sid: another", SID_1, a_session(sid="op-session-2"), False),
    ("sid: the session has none", SID_1, a_session(sid=None), False),
    ("sid: any user", SID_1, a_session(sub="bob"), True),
    ("sid and sub: both the same", BOTH, a_session(), True),
    ("sid and sub: another user", BOTH, a_session(sub="bob"), False),
    ("sid and sub: another session of the user", BOTH, a_session(sid="op-session-2"), False),
    ("sub: the same", ALICE, a_session(), True),
    ("sub: every session of the user", ALICE, a_session(sid="op-session-2"), True),
    ("sub: a session without sid", ALICE, a_session(sid=None), True),
    ("sub: another user", ALICE, a_session(sub="bob"), False),
    ("sub is not sid", a_record(sid=None, sub="op-session-1"), a_session(), False),
    ("another issuer", a_record(issuer="https://other.example.com"), a_session(), False),
    ("another client", a_record(client_id="other"), a_session(), False),
    ("authenticated before", SID_1, a_session(authenticated_at=NOW - 1), True),
    ("authenticated in the same second", SID_1, a_session(authenticated_at=NOW), True),
    ("a login after the logout", SID_1, a_session(authenticated_at=NOW + 1), False),
]

APPLICATION_SUB = a_record(sid=None, sub="alice", made_by="application")
REASONED = [
    ("provider: by sid", SID_1, a_session(), "ended_by_provider"),
    ("provider: a session of the sub without sid", BOTH, a_session(sid=None), "ended_by_provider"),
    ("provider: sid alone says nothing of it", SID_1, a_session(sid=None), None),
    (
        "provider: another user without sid",
        BOTH,
        a_session(sid=None, sub="bob"),
        None,
    ),
    (
        "provider: a session without sid after the logout",
        BOTH,
        a_session(sid=None, authenticated_at=NOW + 1),
        None,
    ),
    ("application: by sub", APPLICATION_SUB, a_session(), "revoked"),
    (
        "application: by sub, with its reason",
        APPLICATION_SUB.model_copy(update={"reason": "signed_out"}),
        a_session(),
        "signed_out",
    ),
    ("application: another user", APPLICATION_SUB, a_session(sub="bob"), None),
    (
        "application: by its own clock, before",
        APPLICATION_SUB,
        a_session(created_at=NOW, authenticated_at=NOW + 60),
        "revoked",
    ),
    (
        "application: by its own clock, after",
        APPLICATION_SUB,
        a_session(created_at=NOW + 1, authenticated_at=NOW - 60),
        None,
    ),
    (
        "application: sid and sub, a session without sid",
        a_record(sub="alice", made_by="application"),
        a_session(sid=None),
        None,
    ),
    (
        "session id",
        a_record(sid=None, session_id="session-1", made_by="application"),
        a_session(),
        "revoked",
    ),
    (
        "session id: whatever the times",
        a_record(sid=None, session_id="session-1", issued_at=NOW - 60),
        a_session(),
        "ended_by_provider",
    ),
    (
        "session id: another",
        a_record(sid=None, session_id="session-1"),
        a_session(id="session-2"),
        None,
    ),
]
