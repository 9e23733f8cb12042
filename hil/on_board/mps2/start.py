"""What MPS2 runs before its prompt."""

import boot_mps2  # noqa: F401
