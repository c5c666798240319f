"""What a run measures, and where that goes: TensorBoard, JSONL, the console, pictures."""
