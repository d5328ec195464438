"""Asks a provider what a login will need, and says what is wrong, line by line."""

from fastapi_oidc.doctor.examination import examine
from fastapi_oidc.doctor.finding import Finding, Verdict

__all__ = ["Finding", "Verdict", "examine"]
