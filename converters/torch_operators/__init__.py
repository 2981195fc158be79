"""Operators of PyTorch as ONNX: what torch's two exporters lack, or have wrong.

capture/          PyTorch under other definitions while a model is captured
dynamo_exporter/  what torch's dynamo exporter is handed
older_exporter/   what is registered for the older one, which reads TorchScript
shared/           what is written once for both: the other three know of it, and of nothing else here
"""
