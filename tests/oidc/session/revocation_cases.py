"""Which session a revocation record ends, and with which reason."""

from __future__ import annotations

from tests.oidc.session.examples import NOW, a_record, a_session

SID_1 = a_record(sid="op-session-1")
BOTH = a_record(sid="op-session-1", sub="alice")
ALICE = a_record(sid=None, sub="alice")
ONE_SESSION = a_record(sid=None, session_id="session-1", made_by="application")
APPLICATION_SUB = a_record(sid=None, sub="alice", made_by="application")

CASES = [
    ("sid: the same, in the same second", SID_1, a_session(), "ended_by_provider"),
    ("sid: another", SID_1, a_session(sid="op-session-2"), None),
    ("sid: the session has none", SID_1, a_session(sid=None), None),
    ("sid: any user", SID_1, a_session(sub="bob"), "ended_by_provider"),
    ("sid and sub: both the same", BOTH, a_session(), "ended_by_provider"),
    ("sid and sub: another user", BOTH, a_session(sub="bob"), None),
    ("sid and sub: another session of the user", BOTH, a_session(sid="op-session-2"), None),
    ("sub: the same", ALICE, a_session(), "ended_by_provider"),
    ("sub: every session of the user", ALICE, a_session(sid="op-session-2"), "ended_by_provider"),
    ("sub: a session without sid", ALICE, a_session(sid=None), "ended_by_provider"),
    ("sub: another user", ALICE, a_session(sub="bob"), None),
    ("sub is not sid", a_record(sid=None, sub="op-session-1"), a_session(), None),
    ("another issuer", a_record(issuer="https://other.example.com"), a_session(), None),
    ("another client", a_record(client_id="other"), a_session(), None),
    ("authenticated before", SID_1, a_session(authenticated_at=NOW - 1), "ended_by_provider"),
    ("a login after the logout", SID_1, a_session(authenticated_at=NOW + 1), None),
    ("provider: a session of the sub without sid", BOTH, a_session(sid=None), "ended_by_provider"),
    ("provider: another user without sid", BOTH, a_session(sid=None, sub="bob"), None),
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
        "application: whatever the clocks of the login",
        APPLICATION_SUB,
        a_session(created_at=NOW + 3600, authenticated_at=NOW + 3600),
        "revoked",
    ),
    (
        "application: a login that came later",
        APPLICATION_SUB,
        a_session().model_copy(update={"prior_revocations": (APPLICATION_SUB.stamp,)}),
        None,
    ),
    (
        "application: sid and sub, a session without sid",
        a_record(sub="alice", made_by="application"),
        a_session(sid=None),
        None,
    ),
    ("session id", ONE_SESSION, a_session(), "revoked"),
    ("session id: another", ONE_SESSION, a_session(id="session-2"), None),
]
