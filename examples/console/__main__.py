"""`python -m examples.console`: the console, with a provider and monitors of its own if needed."""

from examples.console.program import main

if __name__ == "__main__":
    main()
