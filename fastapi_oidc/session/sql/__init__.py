"""The store on PostgreSQL or SQLite, by SQLAlchemy 2; needs the extra `sql`."""

try:
    import greenlet  # noqa: F401 - of SQLAlchemy's extra `asyncio`
    import sqlalchemy  # noqa: F401
except ModuleNotFoundError as missing:
    explanation = "the store on SQL needs: pip install 'fastapi-oidc-vmm[sql]'"
    raise ModuleNotFoundError(explanation, name=missing.name) from None

from fastapi_oidc.session.sql.store import SQLStore, metadata

__all__ = ["SQLStore", "metadata"]
