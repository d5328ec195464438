"""An app as a user would write it, with the page that holds `<oidc-context>`."""

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from fastapi_oidc import OIDC, OIDCMiddleware


def made(oidc: OIDC, *, provider_origin: str) -> FastAPI:
    """The app; its page forbids whatever it does not need."""
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    policy = (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none';"
        f" frame-src 'self' {provider_origin}; form-action 'self' {provider_origin};"
        " frame-ancestors 'none'"
    )

    @app.get("/")
    async def page(attributes: str = "") -> HTMLResponse:
        html = (
            '<!doctype html><html lang="en"><title>App</title><link rel="icon" href="data:,">'
            '<script type="module" src="/auth/oidc-context.js"></script>'
            f"<oidc-context {attributes}></oidc-context></html>"
        )
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    return app
