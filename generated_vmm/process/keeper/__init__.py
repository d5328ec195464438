"""The keeper of a monitor: a small program that is the monitor's parent.

It uses the standard library alone, so that it is small and starts quickly. The caller's side is
`generated_vmm.process.owner`.
"""
