"""TensorFlow functions as ONNX graphs."""

import numpy as np
import pytest
import tensorflow as tf

from minigpt.models.layers.variants import ACTIVATIONS

pytest.importorskip("tf2onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_converted(name):
    from minigpt.targets.onnx.graphs import converted

    def function(x):
        # An input and an output without operations between them would be no graph.
        return {"y": tf.identity(ACTIVATIONS[name](2.0 * x))}

    model = converted(function, [tf.TensorSpec([None, 4], tf.float32, "x")])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.linspace(-6, 6, 400, dtype=np.float32).reshape(-1, 4)
    (found,) = session.run(["y"], {"x": x})
    np.testing.assert_allclose(found, function(x)["y"], rtol=1e-5, atol=1e-6)
