"""The variables that hold the tuner's own secrets: no program that it starts is given them."""

from __future__ import annotations

from collections.abc import Mapping

STORAGE_VARIABLE = "TUNER_STORAGE"
"""The address of a shared storage, with its password."""
NOTIFY_VARIABLE = "TUNER_NOTIFY"
"""The address of a webhook, which is a secret as a whole."""
_SECRETS = (STORAGE_VARIABLE, NOTIFY_VARIABLE, "PGPASSWORD")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for other programs."""
    return {name: value for name, value in environment.items() if name not in _SECRETS}
