"""The store on PostgreSQL or SQLite, by SQLAlchemy 2; needs the extra `sql`."""

from fastapi_oidc.installation import extra

with extra("sql", "the store on SQL needs"):
    import greenlet  # noqa: F401 - of SQLAlchemy's extra `asyncio`
    import sqlalchemy  # noqa: F401

from fastapi_oidc.session.sql.store import SQLStore, metadata

__all__ = ["SQLStore", "metadata"]
