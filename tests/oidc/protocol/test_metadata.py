from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation, ProviderError
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.metadata import ProviderMetadata
from tests.oidc.protocol.examples import (
    ABSENT,
    ISSUER,
    TRUSTED,
    Changes,
    changed,
    changes,
    each,
    refused,
)

DOCUMENT: dict[str, JSON] = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://op.test/authorize",
    "token_endpoint": "https://op.test/token",
    "jwks_uri": "https://op.test/jwks",
    "userinfo_endpoint": "https://op.test/userinfo",
    "end_session_endpoint": "https://op.test/logout?tenant=1",
    "check_session_iframe": "https://op.test/session",
    "response_types_supported": ["id_token code", "code"],
    "id_token_signing_alg_values_supported": ["none", "RS256"],
    "authorization_response_iss_parameter_supported": True,
    "backchannel_logout_supported": "a member that is not looked at",
    "an_unknown_member": {"of": "any kind"},
}


OPTIONAL = (
    "userinfo_endpoint",
    "end_session_endpoint",
    "revocation_endpoint",
    "pushed_authorization_request_endpoint",
    "check_session_iframe",
)
REQUIRED = ("authorization_endpoint", "token_endpoint", "jwks_uri")


def parse(document: object, issuer: TrustedIssuer = TRUSTED, **options: bool) -> ProviderMetadata:
    return ProviderMetadata.parse(document, issuer=issuer, **options)


def test_the_unchanged_document_is_accepted() -> None:
    assert parse(DOCUMENT) == ProviderMetadata(
        issuer=ISSUER,
        authorization_endpoint="https://op.test/authorize",
        token_endpoint="https://op.test/token",
        jwks_uri="https://op.test/jwks",
        userinfo_endpoint="https://op.test/userinfo",
        end_session_endpoint="https://op.test/logout?tenant=1",
        check_session_iframe="https://op.test/session",
        promises_authorization_response_issuer=True,
    )


ANOTHER = changes("issuer", ABSENT, None, 1, "https://op.test", "https://OP.test/", [ISSUER])


@pytest.mark.parametrize(
    "document", [None, [], "text", 1, *(changed(DOCUMENT, change) for change in ANOTHER)]
)
def test_the_issuer_is_compared_exactly(document: object) -> None:
    with refused(Code.PROVIDER_ISSUER_MISMATCH, ProviderError):
        parse(document)


@pytest.mark.parametrize("endpoint", [*REQUIRED, *OPTIONAL])
def test_an_http_endpoint_is_for_an_http_issuer_that_was_allowed(endpoint: str) -> None:
    issuer = "http://op.test"
    insecure = changed(DOCUMENT, {"issuer": issuer, endpoint: "http://op.test/x"})
    metadata = parse(insecure, TrustedIssuer(issuer), allow_insecure_http=True)
    assert getattr(metadata, endpoint) == "http://op.test/x"


@pytest.mark.parametrize("endpoint", REQUIRED)
@pytest.mark.parametrize("allow_insecure_http", [True, False])
def test_an_endpoint_of_an_https_issuer_is_https(endpoint: str, allow_insecure_http: bool) -> None:
    document = changed(DOCUMENT, {endpoint: "http://op.test/x"})
    with refused(Code.PROVIDER_INSECURE_ENDPOINT, ProviderError):
        parse(document, allow_insecure_http=allow_insecure_http)


@pytest.mark.parametrize("endpoint", OPTIONAL)
@pytest.mark.parametrize(
    "url", ["http://op.test/x", "", 1, "javascript:alert(1)", "https://op.test/#x", "https://a b/"]
)
def test_an_unusable_optional_endpoint_counts_as_absent(endpoint: str, url: JSON) -> None:
    metadata = parse(changed(DOCUMENT, {endpoint: url}))
    [ignored] = metadata.ignored
    assert ignored.startswith(endpoint)
    assert replace(metadata, ignored=()) == parse(changed(DOCUMENT, {endpoint: ABSENT}))


@pytest.mark.parametrize("name", ["require_pushed_authorization_requests", "userinfo_endpoint"])
def test_a_member_of_null_is_absent(name: str) -> None:
    null, absent = (parse(changed(DOCUMENT, {name: value})) for value in (None, ABSENT))
    assert null == absent


MALFORMED: Mapping[str, Sequence[Changes]] = {
    "no endpoint": [{name: ABSENT} for name in REQUIRED],
    "token endpoint": changes("token_endpoint", None, ["https://op.test/token"]),
    "keys": changes("jwks_uri", "/jwks", "https://999.1.1.1/jwks"),
}


@pytest.mark.parametrize("change", each(MALFORMED))
def test_a_malformed_member_is_refused(change: Changes) -> None:
    with refused(Code.PROVIDER_METADATA_INVALID, ProviderError):
        parse(changed(DOCUMENT, change))


ALIASES: dict[str, JSON] = {
    "token_endpoint": "https://mtls.op.test/token",
    "userinfo_endpoint": "https://mtls.op.test/userinfo",
    "authorization_endpoint": "https://mtls.op.test/authorize",
    "jwks_uri": "https://mtls.op.test/jwks",
    "issuer": "https://mtls.op.test",
}


def with_aliases(aliases: JSON, *, mutual_tls: bool = True) -> ProviderMetadata:
    return parse({**DOCUMENT, "mtls_endpoint_aliases": aliases}, mutual_tls=mutual_tls)


def test_a_client_with_a_certificate_asks_the_aliases_of_what_it_asks_itself() -> None:
    metadata = with_aliases(ALIASES)
    assert metadata.token_endpoint == "https://mtls.op.test/token"
    assert metadata.userinfo_endpoint == "https://mtls.op.test/userinfo"
    assert metadata.authorization_endpoint == DOCUMENT["authorization_endpoint"]
    assert (metadata.jwks_uri, metadata.issuer) == (DOCUMENT["jwks_uri"], ISSUER)


@pytest.mark.parametrize("aliases", [None, {}, "text", {"token_endpoint": None}])
def test_without_aliases_the_endpoints_are_the_ordinary_ones(aliases: JSON) -> None:
    assert with_aliases(aliases) == with_aliases(ALIASES, mutual_tls=False) == parse(DOCUMENT)


def test_nothing_is_insecure_or_for_a_certificate_unless_it_is_asked_for() -> None:
    issuer = TrustedIssuer("http://op.test")
    document = changed(DOCUMENT, {"issuer": issuer.url, "mtls_endpoint_aliases": ALIASES})
    with refused(Code.PROVIDER_INSECURE_ENDPOINT, ProviderError):
        parse({**document, "token_endpoint": "http://op.test/token"}, issuer)
    assert parse(document, issuer).token_endpoint == DOCUMENT["token_endpoint"]


def test_an_alias_obeys_the_rules_of_endpoints() -> None:
    with refused(Code.PROVIDER_INSECURE_ENDPOINT, ProviderError):
        with_aliases({"token_endpoint": "http://op.test/token"})


SHARED = "https://login.test/organizations/v2.0"
TEMPLATE = "https://login.test/{tenantid}/v2.0"
OURS, THEIRS = "11111111-aaaa-4444-8888-000000000000", "22222222-bbbb-4444-8888-000000000000"
OUR_ISSUER = f"https://login.test/{OURS}/v2.0"
CLAIMS: dict[str, JSON] = {"iss": OUR_ISSUER, "tid": OURS}


def accept(change: Changes, *names: str) -> str:
    issuer = TrustedIssuer.of(SHARED, names or [OURS])
    return issuer.require(changed(CLAIMS, change), Code.ID_TOKEN_ISSUER)


def test_the_issuer_of_an_allowed_tenant_is_the_one_in_its_token() -> None:
    assert accept({}) == accept({}, THEIRS, OURS) == accept({}, "*") == OUR_ISSUER


@pytest.mark.parametrize(
    "change",
    [
        *changes("iss", ABSENT, SHARED, TEMPLATE, f"https://login.test/{THEIRS}/v2.0"),
        *changes("iss", f"https://login.test/{OURS}/v2.0/", f"https://evil.test/{OURS}/v2.0"),
        *changes("tid", ABSENT, None, THEIRS, OURS.upper(), OURS + "\n", [OURS]),
        {"tid": "common", "iss": "https://login.test/common/v2.0"},
        {"tid": "../x", "iss": "https://login.test/../x/v2.0"},
        {"tid": "\\g<0>", "iss": SHARED},
    ],
)
@pytest.mark.parametrize("names", [[OURS], ["*"]])
def test_issuer_and_tenant_must_be_the_same_one(change: Changes, names: list[str]) -> None:
    with refused(Code.ID_TOKEN_ISSUER, ProtocolViolation):
        accept(change, *names)


def test_a_tenant_that_is_not_allowed_is_refused_although_its_issuer_is_its_own() -> None:
    theirs: Changes = {"iss": f"https://login.test/{THEIRS}/v2.0", "tid": THEIRS}
    assert accept(theirs, "*")
    with refused(Code.ID_TOKEN_ISSUER, ProtocolViolation):
        accept(theirs, OURS)


@pytest.mark.parametrize(
    ("issuer", "names"),
    [
        ("https://login.test/v2.0", ["*"]),
        ("https://login.test/commons/v2.0", ["*"]),
        ("https://login.test/common/organizations", ["*"]),
        (SHARED, ["*", OURS]),
        (SHARED, ["contoso.com"]),
        (SHARED, [OURS.upper()]),
    ],
)
def test_impossible_tenants_are_a_fault_of_the_configuration(issuer: str, names: list[str]) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        TrustedIssuer.of(issuer, names)


OF_OURS = TrustedIssuer.of(SHARED, [OURS])


def of_tenants(issuer: str, trusted: TrustedIssuer = OF_OURS) -> ProviderMetadata:
    return ProviderMetadata.parse(changed(DOCUMENT, {"issuer": issuer}), issuer=trusted)


def test_a_templated_issuer_is_accepted_when_tenants_were_asked_for() -> None:
    assert of_tenants(TEMPLATE).issuer == SHARED


@pytest.mark.parametrize("issuer", [SHARED, TEMPLATE + "/", TEMPLATE.replace("login", "evil")])
def test_a_shared_endpoint_has_exactly_the_template(issuer: str) -> None:
    with refused(Code.PROVIDER_ISSUER_MISMATCH, ProviderError):
        of_tenants(issuer)


def test_nobody_else_may_have_a_templated_issuer() -> None:
    with pytest.raises(ProviderError) as caught:
        of_tenants(TEMPLATE, TrustedIssuer(SHARED))
    assert caught.value.code is Code.PROVIDER_ISSUER_MISMATCH
    assert "allowed_tenants" in caught.value.message


@pytest.mark.parametrize(("trusted", "tenant"), [(TRUSTED, ""), (OF_OURS, f", tid is '{OURS}'")])
def test_of_another_issuer_both_are_named(trusted: TrustedIssuer, tenant: str) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        trusted.require({**CLAIMS, "iss": "https://other.test"}, Code.ID_TOKEN_ISSUER)
    assert caught.value.explanation.startswith(f"iss is 'https://other.test'{tenant}")
    assert caught.value.explanation.endswith(f"the configured issuer '{trusted.url}'")
