"""The calls that boot a microVM."""

from __future__ import annotations

import os

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model, require_id
from generated_vmm.operation import Operation

ROOT_DRIVE_ID = "rootfs"


def boot_steps(
    boot_source: str | os.PathLike[str] | models.BootSource | Fields,
    root_drive: str | os.PathLike[str] | models.Drive | Fields | None,
    machine_config: models.MachineConfiguration | Fields | None,
    fields: Fields,
) -> list[Operation[None]]:
    """The calls that boot a microVM, in order.

    Raises TypeError for a machine configuration and single fields of it at once, and for a field of
    the kernel or the root drive among them.
    """
    for name, model in (("boot_source", models.BootSource), ("root_drive", models.Drive)):
        for field in fields.keys() & model.model_fields.keys():
            raise TypeError(f"{field} is a field of {name}: boot({name}={{..., {field!r}: ...}})")
    if isinstance(boot_source, str | os.PathLike):
        boot_source = models.BootSource(kernel_image_path=boot_source)
    steps = [operations.put_guest_boot_source(as_model(models.BootSource, boot_source, {}))]
    if root_drive is not None:
        drive = as_root_drive(root_drive)
        steps.append(operations.put_guest_drive_by_id(drive.drive_id, drive))
    if machine_config is not None:
        machine = as_model(models.MachineConfiguration, machine_config, fields)
        steps.append(operations.put_machine_configuration(machine))
    elif fields:
        change = as_model(models.PartialMachineConfiguration, None, fields)
        steps.append(operations.patch_machine_configuration(change))
    return [
        *steps,
        operations.create_sync_action(models.InstanceActionInfo(action_type="InstanceStart")),
    ]


def as_root_drive(root_drive: str | os.PathLike[str] | models.Drive | Fields) -> models.Drive:
    """The drive to boot from; raises ValueError if it says that it is not the root device."""
    if isinstance(root_drive, str | os.PathLike):
        return models.Drive(drive_id=ROOT_DRIVE_ID, is_root_device=True, path_on_host=root_drive)
    if not isinstance(root_drive, models.Drive):
        usual = models.Drive(drive_id=ROOT_DRIVE_ID, is_root_device=True)
        root_drive = {**usual.model_dump(exclude_unset=True), **root_drive}
    drive = as_model(models.Drive, root_drive, {})
    if not drive.is_root_device:
        raise ValueError("root_drive has is_root_device=False")
    require_id("drive_id", drive.drive_id)
    return drive
