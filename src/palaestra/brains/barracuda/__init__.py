"""Models in Barracuda's format (.nn), which ML-Agents wrote before release 17.

`file` reads the format, `evaluation` runs its layers with numpy in Barracuda's tensor layout (NHWC), `layers` has an
ONNX writer for each kind of layer, and `policy` joins them to a model of version 3, which today's Unity reads.
"""
