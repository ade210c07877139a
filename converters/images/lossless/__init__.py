"""JPEGs coded again without loss: the same coefficients, so the same pixels."""
