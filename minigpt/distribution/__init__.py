"""Training on several devices and processes, through `tf.distribute`."""
