"""What the application's functions take: a callback that expects something else never works."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Annotated, Any, get_args, get_origin

from fastapi_oidc.errors import misconfigured


def require_takes(name: str, callback: Any, *given: type) -> None:
    """Raise ConfigurationError for a callback that cannot be called with values of these types.

    An annotation that is no class, or that nothing can read yet, is not compared, nor are those of
    a function that `functools.wraps` has copied to another one with parameters of its own.
    """
    taken = None if callback is None else _signature_of(callback)
    if taken is None:
        return
    with suppress(TypeError):
        bound = taken.bind(*given).arguments.items()
        compared = () if hasattr(callback, "__wrapped__") else bound
        if not any(
            _are_unrelated(taken.parameters[key].annotation, kind) for key, kind in compared
        ):
            return
    kinds = ", ".join(each.__name__ for each in given)
    raise misconfigured(f"{name} is called with ({kinds}), and takes {taken}")


def annotations_of(function: Any) -> dict[str, Any]:
    """The annotations of its parameters, those that can be read as types."""
    taken = _signature_of(inspect.unwrap(function))
    kinds = (
        {} if taken is None else {name: each.annotation for name, each in taken.parameters.items()}
    )
    return {
        name: get_args(each)[0] if get_origin(each) is Annotated else each
        for name, each in kinds.items()
    }


def _signature_of(function: Any) -> inspect.Signature | None:
    """Its signature, with its annotations as types where these can be read.

    That of a decorated function is its decorator's, which may pass on other arguments.
    """
    for is_evaluated in (True, False):
        with suppress(Exception):  # an annotation may be any expression
            return inspect.signature(function, follow_wrapped=False, eval_str=is_evaluated)
    return None


def _are_unrelated(annotation: Any, given: Any) -> bool:
    """Whether both are classes and neither is a kind of the other."""
    kind: Any = get_origin(annotation) or annotation
    if getattr(kind, "__module__", None) in ("inspect", "types", "typing"):
        return False  # nothing, Any, Annotated or a union
    with suppress(TypeError):  # for what is no class, and for protocols
        return not issubclass(kind, given) and not issubclass(given, kind)
    return False
