"""`python -m examples.console`: the console, with a provider and monitors of its own if needed."""

import gc

if __name__ == "__main__":
    # Imported objects stay: searching them for garbage takes a tenth of the start.
    gc.disable()
    from examples.console.program import main

    main()
