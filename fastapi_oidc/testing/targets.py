"""The API and scope of a requested token (RFC 8707)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from fastapi_oidc.testing.grants import AccessToken
from fastapi_oidc.testing.messages import Parameters, Refusal
from fastapi_oidc.testing.registration import DevClient
from fastapi_oidc.testing.state import ProviderState


def requested_resource(
    op: ProviderState, parameters: Parameters, granted: AbstractSet[str] = frozenset()
) -> str | None:
    """The known resource in `resource` or `audience`; None without both.

    If the user granted certain resources, it must be one of them (RFC 8707 2.2).
    """
    named = {parameters[name] for name in ("resource", "audience") if name in parameters}
    if not named:
        return None
    if len(named) > 1:
        raise Refusal("invalid_target", "resource and audience differ")
    [resource] = named
    if resource not in op.resources:
        raise Refusal("invalid_target", f"there is no resource {resource!r} (RFC 8707 2)")
    if granted and resource not in granted:
        raise Refusal("invalid_target", f"{resource!r} was not granted (RFC 8707 2.2)")
    return resource


def scope_at(op: ProviderState, resource: str | None, scope: tuple[str, ...]) -> tuple[str, ...]:
    """`scope` without the values of other resources; all of `scope` without a resource."""
    if resource is None:
        return scope
    others = {
        value for other in op.resources.values() for value in other.scope
        if value not in op.resources[resource].scope
    }  # fmt: skip
    return tuple(value for value in scope if value not in others)


def api_access(op: ProviderState, parameters: Parameters) -> tuple[str | None, tuple[str, ...]]:
    """The resource and scope of a token for an API only, by either parameter.

    Without `scope` the token has the resource's whole scope; without both it has no scope.
    """
    resource, scope = requested_resource(op, parameters), requested_scope(parameters)
    if resource is None and not scope:
        return None, ()
    for known in op.resources.values():
        if resource in (None, known.identifier) and set(scope) <= set(known.scope):
            return known.identifier, scope or tuple(known.scope)
    raise Refusal("invalid_scope", f"no such resource has the scope {' '.join(scope)!r}")


def requested_scope(parameters: Parameters) -> tuple[str, ...]:
    """The values of `scope` (RFC 6749 3.3)."""
    return tuple(parameters.get("scope", "").split())


def is_for(op: ProviderState, token: AccessToken, client: DevClient) -> bool:
    """Whether the token was issued to `client`, or for the API that `client` is."""
    audience = op.resources.get(token.access.audience)
    names = {token.access.client.client_id, token.access.audience}
    return client.client_id in names | ({audience.client_id} if audience else set())
