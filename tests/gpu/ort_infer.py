import sys
import numpy
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
inputs = {i.name: numpy.ones([d if isinstance(d, int) else 1 for d in i.shape], numpy.float32) for i in session.get_inputs()}
for _ in range(5):
    session.run(None, inputs)
