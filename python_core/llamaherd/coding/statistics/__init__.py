"""Agreement, accuracy and calibration: arrays as input, frozen dataclasses as result."""
