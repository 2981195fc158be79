"""SavedModels: written of ONNX or of Keras, and what is read in those of others."""
