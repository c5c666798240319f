"""Networks to ONNX files that Unity reads.

`onnx` puts a behavior's policy together, `layers` has a function for each kind of module, `heads`
for each kind of action, and `check` compares a file with its network. `core.onnx_graph` collects the nodes.
"""
