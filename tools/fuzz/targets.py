"""Every target by its name: a function that takes any bytes and raises only for a find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.fuzz import protocol_targets, session_targets, vmm_targets

CORPUS: Final = Path(__file__).parent / "corpus"

TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    target.__name__: target
    for target in (
        session_targets.cookie_header,
        session_targets.sealed_session,
        session_targets.transaction,
        protocol_targets.jws,
        protocol_targets.dpop_proof,
        protocol_targets.access_token,
        protocol_targets.id_token,
        protocol_targets.logout_token,
        protocol_targets.discovery,
        protocol_targets.key_set,
        protocol_targets.token_answer,
        protocol_targets.challenge,
        protocol_targets.return_path,
        protocol_targets.callback_query,
        vmm_targets.monitor_answer,
        vmm_targets.description,
    )
}
