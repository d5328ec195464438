"""A configuration for the monitor's `--config-file`."""

from __future__ import annotations

from generated_vmm._generated import models


def to_config_file(configuration: models.FullVmConfiguration) -> str:
    """The JSON document with which a monitor boots the same machine (`--config-file`).

    It contains what `GET /vm/config` shows: no CPU template, logger, metrics, serial console or
    metadata. Raises ValueError if no kernel is configured, because no machine boots without one.
    """
    boot_source = configuration.boot_source
    if boot_source is None or not boot_source.kernel_image_path:
        raise ValueError("the configuration has no kernel_image_path, so nothing can boot from it")
    document = configuration.model_copy()
    document.drives = configuration.drives or []
    return document.model_dump_json(by_alias=True, exclude_none=True, indent=2)
