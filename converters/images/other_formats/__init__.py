"""Formats that some loader cannot read, or reads otherwise: what their headers say, and their pixels."""
