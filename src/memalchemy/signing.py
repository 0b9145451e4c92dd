"""Sign what is stored with the first signing key of a database."""

from memalchemy.codec.secret_keys import generate_key
from memalchemy.maintenance.sign import RefusedRow, SigningReport, outdated_tenants, sign

__all__ = ["RefusedRow", "SigningReport", "generate_key", "outdated_tenants", "sign"]
