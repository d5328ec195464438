"""`python -m generated_vmm.testing`: a simulated monitor as a process."""

import sys

from generated_vmm.testing.process import main

if __name__ == "__main__":
    sys.exit(main())
