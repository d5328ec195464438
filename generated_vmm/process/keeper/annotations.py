"""What annotations use of `typing`, which is so large that each keeper has 0.1 MiB more with it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import Self as Self
else:
    Any = Self = object
