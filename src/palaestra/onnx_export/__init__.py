"""Exports networks as ONNX files that Unity reads.

`onnx` joins a behavior's policy and its action heads, `layers` has a function for each kind of module, and `check`
compares a file with its network. `core.onnx_models` has the graph and the outputs that Unity knows.
"""
