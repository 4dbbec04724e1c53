"""The policy of one stream: a multi-layer perceptron over a flat observation."""
