"""ONNX models: a graph under construction, the outputs of a policy, and notes about its environment."""
