"""The doctor: checks a provider and the settings for everything that a login needs."""

from fastapi_oidc.doctor.examination import examine
from fastapi_oidc.doctor.finding import Finding, Verdict

__all__ = ["Finding", "Verdict", "examine"]
