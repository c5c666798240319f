"""Models in Barracuda's format (.nn), which ML-Agents wrote before release 17.

`file` reads the format, `evaluation` runs its layers with numpy as Barracuda lays tensors out (NHWC), `layers` has an
ONNX writer for each kind of layer, and `policy` puts these together as a model of version 3, as today's Unity reads it.
"""
