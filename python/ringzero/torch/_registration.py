"""Whether the PyTorch that is there can have a backend of Python, and making ringzero one."""

from typing import Any, Optional

import torch

from ringzero import errors


def obstacle(distributed: Any) -> Optional[str]:
    """What a torch.distributed lacks for a backend in Python; None: nothing."""
    if not distributed.is_available():
        return "it was built without torch.distributed (USE_DISTRIBUTED=0)"
    if not hasattr(getattr(distributed, "Backend", None), "register_backend"):
        return "it has no torch.distributed.Backend.register_backend"
    parts = [getattr(distributed, "ProcessGroup", None),
             getattr(getattr(torch._C, "_distributed_c10d", None), "Work", None)]
    try:
        for part in parts:
            type("Part", (part,), {})
    except TypeError:
        return "its ProcessGroup and Work cannot be subclassed in Python"
    return None


def register_backend() -> None:
    """Makes "ringzero" a backend of torch.distributed. `import ringzero.torch` does it where it can.

    Raises:
      UnsupportedError: this PyTorch cannot have one; the text says why.
    """
    found = obstacle(torch.distributed)
    if found is not None:
        raise errors.UnsupportedError(
            f"PyTorch {torch.__version__} cannot have ringzero as a backend of torch.distributed: "
            f"{found}. Install PyTorch 1.13 or newer with torch.distributed, or use ringzero itself: "
            f"ringzero.init() and ringzero.torch.DataParallel")
    from . import process_group  # pylint: disable=import-outside-toplevel
    process_group.register()


if obstacle(torch.distributed) is None:
    register_backend()
